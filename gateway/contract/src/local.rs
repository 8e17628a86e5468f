//! What belongs to one worker thread: connection pools, script machines, buffers.
use std::{
    any::{Any, TypeId},
    cell::RefCell,
    rc::Rc,
};

/// Things of one worker, by their type. Never shared between threads, so nothing in it needs a lock.
#[derive(Default)]
pub struct Local(RefCell<Vec<(TypeId, Rc<dyn Any>)>>);

impl Local {
    /// The worker's only `T`; made on first use.
    pub fn get<T: Default + 'static>(&self) -> Rc<T> {
        self.get_or(T::default)
    }

    /// The worker's only `T`, where it has one.
    pub fn find<T: 'static>(&self) -> Option<Rc<T>> {
        let id = TypeId::of::<T>();
        let known = self.0.borrow().iter().find(|(it, _)| *it == id).map(|(_, it)| it.clone());
        known.and_then(|it| it.downcast().ok())
    }

    /// Like [`get`](Self::get), for what has no default. `make` must not ask for its own type.
    pub fn get_or<T: 'static>(&self, make: impl FnOnce() -> T) -> Rc<T> {
        if let Some(it) = self.find() {
            return it;
        }
        let id = TypeId::of::<T>();
        let new = Rc::new(make());
        self.0.borrow_mut().push((id, new.clone()));
        new
    }
}
