//! Key and entry, byte for byte.

use super::*;

#[test]
fn seed_the_key_is_the_one_that_upstream_pins() {
    let input = KeyInput {
        bytecode: b"bc",
        version: BytecodeVersion { major: 13, minor: 2, tag: 0 },
        gpu_name: "sm_90",
        opt_level: 3,
        flags: 0,
        tileiras_fp: "fp",
        tilelib_digest: None,
    };
    let pinned = "45274c4d279d97c5e383d8a8b035225d5ec81c91bd9f27c3027f5f5593473533";
    assert_eq!(l2_key(&input), pinned);
    // Where a name ends and the next begins is part of the key.
    let shifted = KeyInput { bytecode: b"bcsm", gpu_name: "_90", ..input };
    assert_ne!(l2_key(&shifted), pinned);
}

#[test]
fn seed_an_entry_round_trips_and_decoding_borrows() {
    let entry = encode_entry(&params(), b"the image").unwrap();
    let image = decode_entry(&entry, &params()).unwrap();
    assert_eq!(image, b"the image");
    assert!(entry.as_ptr_range().contains(&image.as_ptr()));
    assert_eq!(EntryHeader::parse(&entry).unwrap().cubin(), b"the image");
    let empty = encode_entry(&params(), b"").unwrap();
    assert_eq!(decode_entry(&empty, &params()), Some(&b""[..]));
}

#[test]
fn seed_an_entry_serves_no_other_request() {
    let entry = encode_entry(&params(), b"image").unwrap();
    for other in others() {
        assert_eq!(decode_entry(&entry, &other), None, "{other:?}");
    }
}

#[test]
fn seed_an_entry_from_before_there_were_flags_is_a_release_entry() {
    // Its byte was padding then, and padding was 0.
    let mut entry = encode_entry(&EntryParams { flags: 4, ..params() }, b"image").unwrap();
    assert_eq!(decode_entry(&entry, &params()), None);
    entry[85] = 0;
    assert_eq!(decode_entry(&entry, &params()), Some(&b"image"[..]));
}

#[test]
fn seed_every_flipped_byte_every_cut_and_anything_behind_is_refused() {
    let entry = encode_entry(&params(), b"the image").unwrap();
    for at in 0..entry.len() {
        for bit in [0x01, 0x80, 0xff] {
            let mut flipped = entry.clone();
            flipped[at] ^= bit;
            let served = decode_entry(&flipped, &params()).is_some();
            assert_eq!(served, RESERVED.contains(&at), "byte {at}");
        }
    }
    for len in 0..entry.len() {
        assert_eq!(decode_entry(&entry[..len], &params()), None, "length {len}");
    }
    let mut longer = entry.clone();
    longer.push(0);
    assert_eq!(decode_entry(&longer, &params()), None);
    assert_eq!(ENTRY_HEADER_LEN, 96);
}

#[test]
fn seed_lengths_that_overflow_are_refused() {
    let mut entry = encode_entry(&params(), b"image").unwrap();
    entry[88..96].fill(0xff);
    assert_eq!(decode_entry(&entry, &params()), None);
    entry[80..84].fill(0xff);
    assert_eq!(decode_entry(&entry, &params()), None);
}

#[test]
fn seed_names_longer_than_a_u16_are_not_encoded() {
    let longest = "x".repeat(usize::from(u16::MAX));
    let longer = format!("{longest}x");
    for (name, encoded) in [(&longest, true), (&longer, false)] {
        let gpu = EntryParams { gpu_name: name, ..params() };
        let fingerprint = EntryParams { tileiras_fp: name, ..params() };
        for params in [gpu, fingerprint] {
            let entry = encode_entry(&params, b"image");
            assert_eq!(entry.is_some(), encoded);
            if let Some(entry) = entry {
                assert_eq!(decode_entry(&entry, &params), Some(&b"image"[..]));
            }
        }
    }
}
