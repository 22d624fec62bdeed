//! Tables of live objects: a handle is the address of the object behind it, and one that a table
//! did not give out is refused.

use crate::{Checked, Handle, errors, lock};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The live objects of one type.
pub(crate) struct Table<T> {
    objects: Mutex<BTreeMap<Handle, Box<T>>>,
}

impl<T> Table<T> {
    pub(crate) const fn new() -> Self {
        Self { objects: Mutex::new(BTreeMap::new()) }
    }

    pub(crate) fn insert(&self, object: T) -> Handle {
        let object = Box::new(object);
        let handle = (&raw const *object).addr();
        lock(&self.objects).insert(handle, object);
        handle
    }

    pub(crate) fn remove(&self, handle: Handle) -> Checked<T> {
        lock(&self.objects).remove(&handle).map(|object| *object).ok_or(errors::INVALID_HANDLE)
    }

    /// Runs `use_object` on an object. It must not lock this table again.
    pub(crate) fn with<R>(
        &self,
        handle: Handle,
        use_object: impl FnOnce(&mut T) -> R,
    ) -> Checked<R> {
        let mut objects = lock(&self.objects);
        objects.get_mut(&handle).map(|object| use_object(object)).ok_or(errors::INVALID_HANDLE)
    }

    pub(crate) fn each(&self, mut use_object: impl FnMut(&mut T)) {
        lock(&self.objects).values_mut().for_each(|object| use_object(object));
    }
}
