//! Which device the shaders run on.

use super::gpu::Gpu;
use std::sync::Arc;
use wgpu::{
    Adapter, AdapterInfo, Backends, Device, DeviceDescriptor, DeviceType, Features, Instance,
    InstanceDescriptor, Limits,
};

/// What an adapter calls itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdapterName {
    pub(crate) name: String,
    /// Backend, kind and driver.
    pub(crate) about: String,
}

impl From<AdapterInfo> for AdapterName {
    fn from(info: AdapterInfo) -> Self {
        let driver = format!("{} {}", info.driver, info.driver_info);
        let about = format!("{}, {:?}, {}", info.backend, info.device_type, driver.trim());
        Self { name: info.name, about }
    }
}

impl Gpu {
    /// A device of the first adapter of Vulkan that gives one, a GPU of its own before any other
    /// kind; without, one of wgpu's noop backend.
    ///
    /// Where `subgroups` is false, the device does without them although its adapter has them.
    pub(crate) fn open(subgroups: bool) -> Self {
        let wanted = if subgroups { Features::SUBGROUP } else { Features::empty() };
        let instance = Instance::new(InstanceDescriptor {
            backends: Backends::VULKAN,
            ..InstanceDescriptor::new_without_display_handle()
        });
        let mut adapters = pollster::block_on(instance.enumerate_adapters(Backends::VULKAN));
        adapters.sort_by_key(|adapter| match adapter.get_info().device_type {
            DeviceType::DiscreteGpu => 0,
            DeviceType::IntegratedGpu => 1,
            DeviceType::VirtualGpu => 2,
            DeviceType::Cpu => 3,
            DeviceType::Other => 4,
        });
        adapters
            .iter()
            .find_map(|adapter| of(adapter, wanted))
            .unwrap_or_else(|| Self::noop(wanted))
            .quiet()
    }

    /// A device of wgpu's noop backend.
    pub(super) fn noop(features: Features) -> Self {
        let descriptor =
            DeviceDescriptor { required_features: features, ..DeviceDescriptor::default() };
        let (device, queue) = Device::noop(&descriptor);
        Self { device, queue, adapter: None }
    }

    /// The same; what is found outside of every error scope is printed. wgpu would panic.
    fn quiet(self) -> Self {
        self.device.on_uncaptured_error(Arc::new(|error| {
            eprintln!("wgpu, outside of any shader: {error}");
        }));
        self
    }
}

fn of(adapter: &Adapter, wanted: Features) -> Option<Gpu> {
    let info = adapter.get_info();
    let opened = pollster::block_on(adapter.request_device(&DeviceDescriptor {
        required_features: wanted & adapter.features(),
        // Every shader here is content with these, and an old adapter would refuse the defaults.
        required_limits: Limits::downlevel_defaults(),
        ..DeviceDescriptor::default()
    }));
    match opened {
        Ok((device, queue)) => Some(Gpu { device, queue, adapter: Some(info.into()) }),
        Err(error) => {
            eprintln!("{} gives no device: {error}", info.name);
            None
        }
    }
}
