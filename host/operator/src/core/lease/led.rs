//! A store that is written only while the lease is proven.

use async_trait::async_trait;
use egress_runtime::capability::{Writes, while_allowed};

use super::Proof;
use crate::{
    api::ProxyStatus,
    core::store::{Notice, ProxyKey, ProxyRecord, Store, StoreError, UserDataError},
};

/// Over another store; reads pass.
pub struct Led<S> {
    store: S,
    proof: Proof,
}

impl<S> Led<S> {
    /// Every write asks this proof.
    pub fn new(store: S, proof: Proof) -> Self {
        Self { store, proof }
    }

    async fn write<T>(
        &self,
        key: &ProxyKey,
        write: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        while_allowed(&self.proof, write).await.unwrap_or_else(|withheld| {
            Err(StoreError::Failed { key: key.clone(), message: withheld.to_string() })
        })
    }
}

#[async_trait]
impl<S: Store> Store for Led<S> {
    async fn get(&self, key: &ProxyKey) -> Result<Option<ProxyRecord>, StoreError> {
        self.store.get(key).await
    }

    async fn write_status(
        &self,
        record: &ProxyRecord,
        status: ProxyStatus,
    ) -> Result<ProxyRecord, StoreError> {
        self.write(&record.key, self.store.write_status(record, status)).await
    }

    async fn set_finalizer(&self, record: &ProxyRecord, on: bool) -> Result<Option<ProxyRecord>, StoreError> {
        self.write(&record.key, self.store.set_finalizer(record, on)).await
    }

    async fn user_data(&self, record: &ProxyRecord) -> Result<Vec<u8>, UserDataError> {
        self.store.user_data(record).await
    }

    async fn is_kind_going(&self, record: &ProxyRecord) -> Result<bool, StoreError> {
        self.store.is_kind_going(record).await
    }

    async fn notify(&self, record: &ProxyRecord, notice: Notice) {
        if self.proof.may_begin().is_ok() {
            self.store.notify(record, notice).await;
        }
    }
}
