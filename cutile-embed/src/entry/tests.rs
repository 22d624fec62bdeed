use super::*;
use proptest::prelude::*;

const PARAMS: EntryParams<'static> = EntryParams {
    bc_sha256: [7; 32],
    gpu_name: "sm_90",
    opt_level: 3,
    flags: 0,
    tileiras_fp: "V13.5.37",
};

fn entry() -> Vec<u8> {
    encode_entry(&PARAMS, b"the image").unwrap()
}

#[test]
fn every_field_is_where_the_table_says() {
    let entry = entry();
    assert_eq!(&entry[..12], b"CUTILECUBIN\0");
    assert_eq!(entry[12..16], [1, 0, 0, 0]);
    assert_eq!(entry[16..48], *Sha256::digest(b"the image"));
    assert_eq!(entry[48..80], [7; 32]);
    assert_eq!(entry[80..84], [5, 0, 8, 0]);
    assert_eq!(entry[84..88], [3, 0, 0, 0]);
    assert_eq!(entry[88..96], [9, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(&entry[96..], b"sm_90V13.5.37the image");
}

#[test]
fn an_entry_is_allocated_once() {
    let entry = entry();
    assert_eq!(entry.capacity(), entry.len());
}

#[test]
fn the_header_reads_without_a_request() {
    let params = EntryParams { flags: 5, ..PARAMS };
    let entry = encode_entry(&params, b"the image").unwrap();
    let header = EntryHeader::parse(&entry).unwrap();
    assert_eq!(header.bc_sha256(), [7; 32]);
    assert_eq!((header.gpu_name(), header.tileiras_fp()), ("sm_90", "V13.5.37"));
    assert_eq!((header.opt_level(), header.flags()), (3, 5));
    assert_eq!(header.cubin(), b"the image");
}

#[test]
fn what_is_returned_lies_in_the_entry() {
    let entry = entry();
    let image = decode_entry(&entry, &PARAMS).unwrap();
    assert_eq!(image.as_ptr_range().end, entry.as_ptr_range().end);
}

#[test]
fn what_was_verified_before_is_not_hashed_again() {
    let mut entry = entry();
    assert_eq!(EntryHeader::parse_verified(&entry), EntryHeader::parse(&entry));
    let last = entry.len() - 1;
    entry[last] ^= 1;
    assert_eq!(EntryHeader::parse(&entry), Err(EntryError::Digest));
    assert!(EntryHeader::parse_verified(&entry).is_ok());
    assert_eq!(EntryHeader::parse_verified(&entry[..last]), Err(EntryError::Length));
}

#[test]
fn each_fault_is_named() {
    let entry = entry();
    let edited = |at: usize, byte: u8| {
        let mut entry = entry.clone();
        entry[at] = byte;
        EntryHeader::parse(&entry).map(|_| ())
    };
    assert_eq!(edited(0, b'X'), Err(EntryError::NotAnEntry));
    assert_eq!(edited(12, 2), Err(EntryError::Version(2)));
    assert_eq!(edited(80, 6), Err(EntryError::Length));
    assert_eq!(edited(88, 8), Err(EntryError::Length));
    assert_eq!(edited(95, 0xff), Err(EntryError::Length));
    assert_eq!(edited(96, 0xff), Err(EntryError::Name));
    assert_eq!(edited(entry.len() - 1, 0), Err(EntryError::Digest));
    // Upstream does not read the reserved bytes either.
    for at in [14, 15, 86, 87] {
        assert_eq!(edited(at, 1), Ok(()), "byte {at}");
    }
}

#[test]
fn each_fault_says_what_was_found() {
    let texts = [
        (EntryError::NotAnEntry, "not a cache entry"),
        (EntryError::Version(7), "entry of format 7, expected 1"),
        (EntryError::Length, "the entry is not as long as its header says"),
        (EntryError::Name, "a name in the entry is not UTF-8"),
        (EntryError::Digest, "the cubin does not match the digest in its entry"),
    ];
    for (error, text) in texts {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn the_fingerprint_of_an_entry_takes_in_tile_libraries() {
    assert_eq!(entry_fingerprint("V1", None), "V1");
    assert_eq!(entry_fingerprint("V1", Some("ab")), "V1+tilelibs:ab");
}

proptest! {
    #[test]
    fn what_is_encoded_decodes_and_serves_no_other_request(
        cubin in prop::collection::vec(any::<u8>(), 0..64),
        bc_sha256 in any::<[u8; 32]>(),
        gpu_name in "\\PC{0,8}",
        tileiras_fp in "\\PC{0,8}",
        opt_level: u8,
        flags: u8,
    ) {
        let params = EntryParams {
            bc_sha256, gpu_name: &gpu_name, opt_level, flags, tileiras_fp: &tileiras_fp,
        };
        let entry = encode_entry(&params, &cubin).unwrap();
        prop_assert_eq!(decode_entry(&entry, &params), Some(&*cubin));
        let longer = format!("{gpu_name}x");
        for other in [
            EntryParams { bc_sha256: bc_sha256.map(|byte| !byte), ..params },
            EntryParams { gpu_name: &longer, ..params },
            EntryParams { opt_level: !opt_level, ..params },
            EntryParams { flags: !flags, ..params },
            EntryParams { tileiras_fp: "\u{1}", ..params },
        ] {
            prop_assert_eq!(decode_entry(&entry, &other), None);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        edits in prop::collection::vec((0usize..130, any::<u8>()), 0..6),
    ) {
        let _ = EntryHeader::parse(&bytes);
        let mut edited = entry();
        for (at, byte) in edits {
            if let Some(place) = edited.get_mut(at) {
                *place = byte;
            }
        }
        if let Some(image) = decode_entry(&edited, &PARAMS) {
            prop_assert_eq!(image, b"the image");
        }
    }
}
