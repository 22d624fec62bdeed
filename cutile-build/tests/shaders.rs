//! Shaders through the builder, in crates of their own, with the environment of a build script given
//! as values.
#![cfg(feature = "wgsl")]

#[path = "shaders/bundle.rs"]
mod bundle;
#[path = "shaders/constants.rs"]
mod constants;
#[path = "shaders/errors.rs"]
mod errors;
#[path = "shaders/features.rs"]
mod features;
#[path = "shaders/fixture.rs"]
mod fixture;
#[path = "shaders/module.rs"]
mod module;
#[path = "shaders/script.rs"]
mod script;
