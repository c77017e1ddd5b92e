//! Whom an endpoint's TLS trusts, who it says it is, and what it tells a proxy on the way, read at every request.

use std::sync::Arc;

use http::HeaderValue;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use super::{grant::Endpoint, way::By};
use crate::credentials::{CredentialRef, Secrets};

/// What stands there. Equal means that the same connections will do.
#[derive(PartialEq, Eq)]
pub(super) struct Trust {
    ca: Option<String>,
    certificate: Option<(String, String)>,
    proxy_password: Option<String>,
}

impl Trust {
    /// Or which of them can't be read, and why.
    pub(super) async fn read(endpoint: &Endpoint, secrets: Option<&dyn Secrets>) -> Result<Self, String> {
        let ca = match &endpoint.ca {
            Some(ca) => Some(text(ca, secrets).await?),
            None => None,
        };
        let certificate = match &endpoint.client_certificate {
            Some(both) => Some((text(&both.certificate, secrets).await?, text(&both.key, secrets).await?)),
            None => None,
        };
        let basic = endpoint.proxy.as_ref().and_then(|proxy| proxy.basic.as_ref());
        let proxy_password = match basic {
            Some(basic) => Some(secret(&basic.password, secrets).await?),
            None => None,
        };
        Ok(Self { ca, certificate, proxy_password })
    }

    /// What forwards to the endpoint, if something does.
    pub(super) fn proxy(&self, endpoint: &Endpoint) -> Result<Option<By>, String> {
        let Some(granted) = &endpoint.proxy else { return Ok(None) };
        let proxy = granted.uri().map_err(|what| format!("proxy.url {what}"))?;
        let (Some(password), Some(basic)) = (&self.proxy_password, &granted.basic) else {
            return Ok(Some(By { proxy, authorization: None }));
        };
        let authorization = sensitive(&basic.value(password), &basic.password)?;
        Ok(Some(By { proxy, authorization: Some(authorization) }))
    }

    /// Or which of them is not what it should be.
    pub(super) fn config(&self, endpoint: &Endpoint) -> Result<ClientConfig, String> {
        let config = ClientConfig::builder().with_root_certificates(self.roots(endpoint)?);
        let (Some((chain, key)), Some(places)) = (&self.certificate, &endpoint.client_certificate) else {
            return Ok(config.with_no_client_auth());
        };
        let certificates = certificates(chain, &places.certificate)?;
        let shown = places.key.place();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|_| format!("{shown} holds no private key"))?;
        config
            .with_client_auth_cert(certificates, key)
            .map_err(|_| format!("{shown} is not the key of {}", places.certificate.place()))
    }

    fn roots(&self, endpoint: &Endpoint) -> Result<Arc<RootCertStore>, String> {
        let mut roots = RootCertStore::empty();
        match (&self.ca, &endpoint.ca) {
            (Some(pem), Some(place)) => {
                for certificate in certificates(pem, place)? {
                    roots.add(certificate).map_err(|_| {
                        format!("{} holds a certificate that can sign for nobody", place.place())
                    })?;
                }
            }
            _ => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if roots.is_empty() {
                    return Err("the system trusts no authority; name one with ca".to_owned());
                }
            }
        }
        Ok(Arc::new(roots))
    }
}

fn certificates(pem: &str, place: &CredentialRef) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match read {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(format!("{} holds no certificates in PEM", place.place())),
    }
}

async fn text(place: &CredentialRef, secrets: Option<&dyn Secrets>) -> Result<String, String> {
    place.read(secrets).await.map_err(|no| no.message)
}

/// The secret that stands there, without blanks around it.
pub(super) async fn secret(place: &CredentialRef, secrets: Option<&dyn Secrets>) -> Result<String, String> {
    match text(place, secrets).await?.trim() {
        "" => Err(format!("{} is empty", place.place())),
        text => Ok(text.to_owned()),
    }
}

/// A header's value of what stands at that place.
pub(super) fn sensitive(value: &str, place: &CredentialRef) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(value).map_err(|_| {
        format!("what {} holds can't be sent; does it have a line break inside?", place.place())
    })?;
    value.set_sensitive(true);
    Ok(value)
}
