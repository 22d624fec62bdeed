//! says: unknown enable-extension
enable time_travel;
fn main() {}
