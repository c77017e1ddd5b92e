//! Volumes: what goes up comes down.

use libvirt_remote::{Error, ListPoolsFlags, StorageVolCreateFlags, StorageVolResizeFlags};
use sha2::{Digest, Sha256};

use crate::lab::*;

#[tokio::test]
#[ignore = "needs a libvirt daemon: LIBVIRT_REMOTE_SOCKET"]
async fn what_is_uploaded_is_what_is_downloaded() {
    const BYTES: usize = 64 * 1024 * 1024;
    let libvirt = open().await;
    let pool = active_pool(&libvirt).await;
    assert!(libvirt.connect_list_all_storage_pools(ListPoolsFlags::ACTIVE).await.unwrap().contains(&pool));
    assert!(libvirt.storage_pool_get_xml_desc(&pool).await.unwrap().contains("<pool type='dir'>"));
    let bytes = BYTES as u64;
    let vol = volume(&libvirt, &pool, "libvirt-remote-upload", "raw", bytes).await;
    // Bytes that repeat at no power of two.
    let content: Vec<u8> = (0..BYTES).map(|index| (index % 251) as u8).collect();

    let mut upload = libvirt.storage_vol_upload(&vol, 0, Some(bytes)).await.unwrap();
    for piece in content.chunks(1_000_003) {
        upload.write(piece).await.unwrap();
        // Other calls go on meanwhile.
        assert!(libvirt.node_get_free_memory().await.unwrap() > 0);
    }
    assert_eq!(upload.finish().await.unwrap(), bytes);

    let mut digest = Sha256::new();
    let mut download = libvirt.storage_vol_download(&vol, 0, None).await.unwrap();
    while let Some(chunk) = download.chunk().await.unwrap() {
        digest.update(&chunk);
    }
    assert_eq!(download.received(), bytes);
    assert_eq!(digest.finalize(), Sha256::digest(&content));

    let mut middle = libvirt.storage_vol_download(&vol, 1_000_000, Some(10)).await.unwrap();
    assert_eq!(&middle.chunk().await.unwrap().unwrap()[..], &content[1_000_000..1_000_010]);
    assert_eq!(middle.chunk().await.unwrap(), None);
    let mut past = libvirt.storage_vol_download(&vol, bytes, Some(10)).await.unwrap();
    assert_eq!(past.chunk().await.unwrap(), None, "past the end there is nothing");

    // Given up on in the middle: the connection goes on, and so does the volume.
    let mut upload = libvirt.storage_vol_upload(&vol, 0, Some(bytes)).await.unwrap();
    upload.write(&content[..3_000_000]).await.unwrap();
    drop(upload);
    let mut download = libvirt.storage_vol_download(&vol, 0, None).await.unwrap();
    download.chunk().await.unwrap().unwrap();
    drop(download);
    let upload = libvirt.storage_vol_upload(&vol, 0, Some(bytes)).await.unwrap();
    upload.abort().await;
    let mut short = libvirt.storage_vol_upload(&vol, 0, Some(bytes)).await.unwrap();
    short.write(&content[..5]).await.unwrap();
    assert!(matches!(short.finish().await, Err(Error::Stream { .. })), "libvirt would have taken it");

    assert_eq!(libvirt.storage_vol_get_info(&vol).await.unwrap().capacity, bytes);
    libvirt.storage_vol_resize(&vol, 2 * bytes, StorageVolResizeFlags::NONE).await.unwrap();
    assert_eq!(libvirt.storage_vol_get_info(&vol).await.unwrap().capacity, 2 * bytes);
    let path = libvirt.storage_vol_get_path(&vol).await.unwrap();
    assert_eq!(libvirt.storage_vol_lookup_by_path(&path).await.unwrap(), vol);
    assert_eq!(libvirt.storage_vol_lookup_by_key(&vol.key).await.unwrap(), vol);
    assert!(libvirt.storage_vol_get_xml_desc(&vol).await.unwrap().contains("<volume type='file'>"));
    libvirt.storage_pool_refresh(&pool).await.unwrap();
    assert!(libvirt.storage_pool_list_all_volumes(&pool).await.unwrap().contains(&vol));
    let copy = "<volume><name>libvirt-remote-copy</name><capacity>0</capacity></volume>";
    let copy =
        libvirt.storage_vol_create_xml_from(&pool, copy, &vol, StorageVolCreateFlags::NONE).await.unwrap();
    libvirt.storage_vol_delete(&copy).await.unwrap();
    libvirt.storage_vol_delete(&vol).await.unwrap();
    assert!(libvirt.cause().is_none(), "the connection lives: {:?}", libvirt.statistics());
}
