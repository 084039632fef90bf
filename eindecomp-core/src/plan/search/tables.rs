//! Hash-consed cost tables: equal contents share one allocation and one number.

use std::collections::HashMap;
use std::sync::Arc;

/// A table: equal ids iff equal contents, within one [`Tables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TableId(u32);

/// Every distinct table.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    all: Vec<Arc<[u64]>>,
    ids: HashMap<Arc<[u64]>, TableId>,
}

impl Tables {
    pub(super) fn intern(&mut self, table: impl Into<Arc<[u64]>> + AsRef<[u64]>) -> TableId {
        if let Some(&id) = self.ids.get(table.as_ref()) {
            return id;
        }
        let (table, id) = (table.into(), TableId(self.all.len() as u32));
        self.all.push(table.clone());
        self.ids.insert(table, id);
        id
    }

    pub(super) fn get(&self, id: TableId) -> &Arc<[u64]> {
        &self.all[id.0 as usize]
    }
}
