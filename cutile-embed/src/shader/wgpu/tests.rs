use super::*;
use wgpu::{Backend, DeviceType};

fn adapter() -> AdapterInfo {
    let mut info = AdapterInfo::new(DeviceType::DiscreteGpu, Backend::Vulkan);
    info.name = "card".into();
    info.vendor = 1;
    info.device = 2;
    info.driver = "driver".into();
    info.driver_info = "1.0".into();
    info
}

#[test]
fn s35_another_adapter_or_driver_has_another_key() {
    let known = preimage(&adapter(), "app");
    let changes: [fn(&mut AdapterInfo); 8] = [
        |info| info.name = "other".into(),
        |info| info.vendor = 9,
        |info| info.device = 9,
        |info| info.device_type = DeviceType::Cpu,
        |info| info.driver = "other".into(),
        |info| info.driver_info = "1.1".into(),
        |info| info.backend = Backend::Gl,
        |info| info.subgroup_max_size = 9,
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut changed = adapter();
        change(&mut changed);
        assert_ne!(preimage(&changed, "app"), known, "change {at}");
    }
    let mut moved = adapter();
    moved.device_pci_bus_id = "0000:01:00.0".into();
    assert_eq!(preimage(&moved, "app"), known);
    assert_ne!(preimage(&adapter(), "other"), known);
}

#[test]
fn s35_the_entry_of_another_driver_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config::default().disk(Some(dir.path().join("shaders")));
    let put_for = |info: &AdapterInfo| {
        put(&store(&config).unwrap().unwrap(), &preimage(info, "app"), b"pipelines").unwrap();
    };
    put_for(&adapter());
    assert_eq!(stored(&adapter(), "app", &config).as_deref(), Some(&b"pipelines"[..]));
    let mut updated = adapter();
    updated.driver_info = "1.1".into();
    assert_eq!(stored(&updated, "app", &config), None);

    // Even where the old entry lies under the new key.
    let key = |info: &AdapterInfo| key_text(&Sha256::digest(preimage(info, "app")).into());
    let disk = store(&config).unwrap().unwrap();
    let old = disk.get(&key(&adapter())).unwrap().unwrap();
    disk.put(&key(&updated), &old).unwrap();
    assert_eq!(stored(&updated, "app", &config), None);
}

#[test]
fn without_a_disk_tier_there_is_no_stored_cache() {
    assert_eq!(stored(&adapter(), "app", &Config::default().disk(None)), None);
}
