//! Whom an endpoint's TLS trusts and who it says it is, read from files at every request.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use super::grant::{Endpoint, Material};

/// A key, a token or a few certificates; nobody's file is longer.
const LONGEST: u64 = 1 << 20;

/// What stands in the files. Equal means that the same connections will do.
#[derive(PartialEq, Eq)]
pub(super) struct Trust {
    ca: Option<Vec<u8>>,
    certificate: Option<(Vec<u8>, Vec<u8>)>,
}

impl Trust {
    /// Or which file can't be read, and why.
    pub(super) async fn read(endpoint: &Endpoint) -> Result<Self, String> {
        let ca = match &endpoint.ca {
            Some(ca) => Some(read(ca).await?),
            None => None,
        };
        let certificate = match &endpoint.client_certificate {
            Some(both) => Some((read(&both.certificate).await?, read(&both.key).await?)),
            None => None,
        };
        Ok(Self { ca, certificate })
    }

    /// Or which of them is not what it should be.
    pub(super) fn config(&self, endpoint: &Endpoint) -> Result<ClientConfig, String> {
        let config = ClientConfig::builder().with_root_certificates(self.roots(endpoint)?);
        let (Some((chain, key)), Some(files)) = (&self.certificate, &endpoint.client_certificate) else {
            return Ok(config.with_no_client_auth());
        };
        let certificates = certificates(chain, &files.certificate.file)?;
        let shown = files.key.file.display();
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| format!("{shown} holds no private key"))?;
        config
            .with_client_auth_cert(certificates, key)
            .map_err(|_| format!("{shown} is not the key of {}", files.certificate.file.display()))
    }

    fn roots(&self, endpoint: &Endpoint) -> Result<Arc<RootCertStore>, String> {
        let mut roots = RootCertStore::empty();
        match (&self.ca, &endpoint.ca) {
            (Some(pem), Some(material)) => {
                for certificate in certificates(pem, &material.file)? {
                    roots.add(certificate).map_err(|_| {
                        format!("{} holds a certificate that can sign for nobody", material.file.display())
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

fn certificates(pem: &[u8], file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(format!("{} holds no certificates in PEM", file.display())),
    }
}

/// A file of a moderate size, or why not; never a part of what it holds.
pub(super) async fn read(material: &Material) -> Result<Vec<u8>, String> {
    let shown = material.file.display();
    let unreadable = |error: std::io::Error| format!("{shown} can't be read: {}", error.kind());
    let found = tokio::fs::metadata(&material.file).await.map_err(unreadable)?;
    if !found.is_file() || found.len() > LONGEST {
        return Err(format!("{shown} is no file of at most {LONGEST} bytes"));
    }
    tokio::fs::read(&material.file).await.map_err(unreadable)
}

/// The text of a secret's file, without blanks around it.
pub(super) async fn secret(material: &Material) -> Result<String, String> {
    let shown = material.file.display();
    let text = String::from_utf8(read(material).await?).map_err(|_| format!("{shown} holds no text"))?;
    match text.trim() {
        "" => Err(format!("{shown} is empty")),
        text => Ok(text.to_owned()),
    }
}
