use super::*;
use proptest::prelude::*;

fn pack(entries: &[(u8, &[u8])]) -> Vec<u8> {
    let mut writer = PackWriter::new("crate", "1.0.0");
    for (key, payload) in entries {
        writer.insert([*key; 32], payload.to_vec()).unwrap();
    }
    writer.finish()
}

const ENTRIES: [(u8, &[u8]); 3] = [(1, b"one"), (2, b""), (9, b"seventeen bytes!!")];

#[test]
fn what_is_put_in_comes_out_at_every_alignment() {
    let bytes = pack(&ENTRIES);
    for shift in 0..16 {
        let mut moved = vec![0; shift];
        moved.extend_from_slice(&bytes);
        let pack = Pack::parse(&moved[shift..]).unwrap();
        assert_eq!((pack.package(), pack.version(), pack.len()), ("crate", "1.0.0", 3));
        for (key, payload) in ENTRIES {
            let entry = pack.get(&[key; 32]).unwrap();
            assert_eq!(&*entry.payload().unwrap(), payload);
            assert_eq!(entry.offset % ALIGN, 0);
        }
        assert_eq!(pack.get(&[3; 32]), None);
        assert_eq!(pack.total_len(), bytes.len());
        moved.push(0);
        assert_eq!(Pack::parse(&moved[shift..]).unwrap().total_len(), bytes.len());
    }
}

#[test]
fn the_order_of_insertion_does_not_show() {
    let mut backwards = ENTRIES;
    backwards.reverse();
    assert_eq!(pack(&ENTRIES), pack(&backwards));
}

#[test]
fn an_empty_pack_is_a_pack() {
    let bytes = pack(&[]);
    assert!(Pack::parse(&bytes).unwrap().is_empty());
    assert!(!Pack::parse(&pack(&ENTRIES)).unwrap().is_empty());
}

#[test]
fn what_lies_behind_a_pack_is_not_of_it() {
    let mut bytes = pack(&ENTRIES);
    let length = bytes.len();
    bytes.extend_from_slice(b"behind");
    let pack = Pack::parse(&bytes).unwrap();
    assert_eq!((pack.total_len(), pack.len()), (length, ENTRIES.len()));
    // A pack without entries or names is a header.
    let empty = PackWriter::new("", "").finish();
    assert_eq!(Pack::parse(&empty).unwrap().total_len(), empty.len());
}

#[test]
fn a_payload_can_lie_right_behind_the_index() {
    // 80, 16 for the names, two rows: a multiple of 16.
    let mut writer = PackWriter::new("fifteen letters", "1");
    for key in [1, 2] {
        writer.insert([key; 32], vec![key]).unwrap();
    }
    let bytes = writer.finish();
    let pack = Pack::parse(&bytes).unwrap();
    assert_eq!(pack.get(&[1; 32]).unwrap().offset, HEADER_LEN + 16 + 2 * ROW_LEN);
}

#[test]
fn another_payload_under_a_key_is_refused() {
    let mut writer = PackWriter::new("crate", "1.0.0");
    writer.insert([1; 32], vec![1]).unwrap();
    writer.insert([1; 32], vec![1]).unwrap();
    assert_eq!(writer.insert([1; 32], vec![2]), Err(PackError::Conflict([1; 32])));
}

#[test]
fn every_flipped_byte_is_found_when_it_is_read() {
    let bytes = pack(&ENTRIES);
    let whole = Pack::parse(&bytes).unwrap();
    let payloads: Vec<_> =
        whole.entries().map(|entry| entry.offset..entry.offset + entry.stored.len()).collect();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x40;
        let Ok(pack) = Pack::parse(&damaged) else { continue };
        let in_payload = payloads.iter().position(|range| range.contains(&at));
        // What is neither header, index nor payload is padding.
        let broken = pack.entries().position(|entry| entry.payload().is_err());
        assert_eq!(broken, in_payload, "byte {at}");
    }
}

#[test]
fn every_truncation_is_refused() {
    let bytes = pack(&ENTRIES);
    for len in 0..bytes.len() {
        assert!(Pack::parse(&bytes[..len]).is_err(), "length {len}");
    }
}

#[test]
fn another_version_is_named() {
    let mut bytes = pack(&ENTRIES);
    bytes[16] = 7;
    assert_eq!(Pack::parse(&bytes), Err(PackError::Version(7)));
}

#[test]
fn the_magic_is_what_the_text_says() {
    assert_eq!(magic()[0], 0xC7);
    assert_eq!(magic()[1..], *b"CUTILE-PACK\r\n\x1a\n");
    assert_eq!(pack(&ENTRIES)[..16], magic());
}

#[test]
fn packs_are_found_in_any_file_and_a_lone_magic_is_an_error() {
    let mut file = b"\x7fELF and so on".to_vec();
    file.extend_from_slice(&magic());
    file.extend_from_slice(b" in a text");
    let first = file.len();
    file.extend_from_slice(&pack(&ENTRIES));
    let second = file.len();
    file.extend_from_slice(&pack(&[]));
    let found: Vec<_> = find_packs(&file).collect();
    let places: Vec<_> = found.iter().map(|(at, pack)| (*at, pack.is_ok())).collect();
    assert_eq!(places, [(14, false), (first, true), (second, true)]);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        edits in prop::collection::vec((0usize..600, any::<u8>()), 0..8),
    ) {
        let _ = Pack::parse(&bytes);
        let mut bytes = pack(&ENTRIES);
        for (at, byte) in edits {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        for (_, pack) in find_packs(&bytes) {
            if let Ok(pack) = pack {
                for entry in pack.entries() {
                    let _ = entry.payload();
                }
            }
        }
    }
}

/// A pack that was changed by somebody who also knows how to make its digest.
fn forged_bytes(edit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = pack(&ENTRIES);
    let end = INDEX + ENTRIES.len() * ROW_LEN;
    edit(&mut bytes);
    let mut digest = Sha256::new();
    digest.update(&bytes[..48]);
    digest.update(&bytes[HEADER_LEN..end]);
    bytes[48..80].copy_from_slice(&digest.finalize());
    bytes
}

/// Where the index of a pack of [`pack`] begins.
const INDEX: usize = HEADER_LEN + "crate".len() + "1.0.0".len();

/// As above; only its index is changed.
fn forged(edit: impl FnOnce(&mut [u8])) -> Vec<u8> {
    forged_bytes(|bytes| edit(&mut bytes[INDEX..INDEX + ENTRIES.len() * ROW_LEN]))
}

#[test]
fn a_forged_index_is_refused() {
    let malformed = |bytes: Vec<u8>| match Pack::parse(&bytes) {
        Err(PackError::Malformed(what)) => what,
        other => panic!("{other:?}"),
    };
    // Keys 1, 2, 9: the first two rows are swapped, or equal.
    let (first, second) = (0..ROW_LEN, ROW_LEN..2 * ROW_LEN);
    assert_eq!(malformed(forged(|index| index[..32].fill(3))), "the index is not sorted");
    assert_eq!(malformed(forged(|index| index[..32].fill(2))), "the index is not sorted");
    assert_eq!(
        malformed(forged(|index| index.copy_within(first, second.start))),
        "the index is not sorted"
    );
    for (offset, len) in [(u64::MAX, 1), (16, 3), (1 << 20, 0), (u64::MAX, u64::MAX)] {
        let bytes = forged(|index| {
            index[32..40].copy_from_slice(&offset.to_le_bytes());
            index[40..48].copy_from_slice(&len.to_le_bytes());
        });
        assert_eq!(malformed(bytes), "an entry lies outside", "{offset} {len}");
    }
    assert_eq!(malformed(forged(|index| index[32] += 1)), "an entry is not aligned");
    // A gap, and two entries that share bytes.
    let apart = "an entry is not behind the one before it";
    assert_eq!(malformed(forged(|index| index[32] += 16)), apart);
    assert_eq!(malformed(forged(|index| index[40] = 17)), apart);
    let last = 2 * ROW_LEN;
    assert_eq!(
        malformed(forged(|index| index[last + 40] -= 1)),
        "it does not end with its last entry"
    );
    let raw = "a raw entry has a plain length";
    assert_eq!(malformed(forged(|index| index[52] = 1)), raw);
    assert_eq!(malformed(forged(|index| index[55] = 1)), raw);
    // Codec 1: longer than what is stored, 3 bytes here, and no longer than the bound.
    let compressed = |plain: u32| {
        forged(|index| {
            index[48] = 1;
            index[52..56].copy_from_slice(&plain.to_le_bytes());
        })
    };
    let longest = u32::try_from(MAX_PLAIN_LEN).unwrap();
    for plain in [0, 3, longest + 1, u32::MAX] {
        assert_eq!(malformed(compressed(plain)), "a plain length is out of range", "{plain}");
    }
    for plain in [4, longest] {
        assert!(Pack::parse(&compressed(plain)).is_ok(), "{plain}");
    }
    assert!(Pack::parse(&forged(|_| {})).is_ok());
}

#[test]
fn a_forged_header_is_refused() {
    for at in 36..48 {
        let bytes = forged_bytes(|bytes| bytes[at] = 1);
        let refused = PackError::Malformed("reserved bytes are not 0");
        assert_eq!(Pack::parse(&bytes), Err(refused), "byte {at}");
    }
    // Longer than its entries, with something there.
    let bytes = forged_bytes(|bytes| {
        bytes.push(0);
        let total = (bytes.len() as u64).to_le_bytes();
        bytes[24..32].copy_from_slice(&total);
    });
    let refused = PackError::Malformed("it does not end with its last entry");
    assert_eq!(Pack::parse(&bytes), Err(refused));
}

/// Headers in one another, each of which says that nearly all of the rest is its index. Hashing it
/// for each of them took a minute for a file of 1 MB.
#[test]
fn a_file_full_of_magics_is_searched_once() {
    let header = |rest: usize| {
        let mut header = pack(&[])[..HEADER_LEN].to_vec();
        header[20..24].copy_from_slice(&((rest / ROW_LEN) as u32).to_le_bytes());
        header[24..32].copy_from_slice(&((rest + HEADER_LEN) as u64).to_le_bytes());
        header[32..36].fill(0);
        header
    };
    let headers = (1 << 20) / HEADER_LEN;
    let file: Vec<u8> = (0..headers).rev().flat_map(|left| header(left * HEADER_LEN)).collect();
    let begun = std::time::Instant::now();
    assert!(find_packs(&file).all(|(_, pack)| pack.is_err()));
    // 7 GB would be hashed.
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

#[test]
fn a_codec_of_another_build_is_named_after_the_digest_was_checked() {
    let bytes = forged(|index| index[48] = 7);
    let entry = Pack::parse(&bytes).unwrap().get(&[1; 32]).unwrap();
    assert_eq!(entry.codec, 7);
    assert_eq!(entry.payload(), Err(PackError::Codec(7)));
    assert_eq!(Decoder::new().payload(&entry), Err(PackError::Codec(7)));
    assert_eq!(entry.unchecked(), None);
    let bytes = forged(|index| {
        index[48] = 7;
        index[56] ^= 1;
    });
    let entry = Pack::parse(&bytes).unwrap().get(&[1; 32]).unwrap();
    assert_eq!(entry.payload(), Err(PackError::DamagedEntry([1; 32])));
}

#[test]
fn a_payload_is_not_copied() {
    let bytes = pack(&ENTRIES);
    let entry = Pack::parse(&bytes).unwrap().get(&[1; 32]).unwrap();
    assert!(matches!(entry.payload(), Ok(Cow::Borrowed(_))));
    let mut decoder = Decoder::new();
    assert_eq!(decoder.payload(&entry).unwrap().as_ptr(), entry.stored.as_ptr());
}

#[test]
fn a_lookup_among_10_000_compares_at_most_16_keys() {
    let key = |n: u32| <[u8; 32]>::from(Sha256::digest(n.to_le_bytes()));
    let mut writer = PackWriter::new("crate", "1.0.0");
    for n in 0..10_000u32 {
        writer.insert(key(n), n.to_le_bytes().to_vec()).unwrap();
    }
    let bytes = writer.finish();
    let pack = Pack::parse(&bytes).unwrap();
    // What is there, and what is not.
    for n in (0..20_000).step_by(7) {
        let mut compared = 0;
        let found = pack.find(|found| {
            compared += 1;
            found.cmp(&key(n))
        });
        assert!(compared <= 16, "{compared}");
        assert_eq!(found.map(|entry| entry.stored), (n < 10_000).then_some(&n.to_le_bytes()[..]));
        assert_eq!(found, pack.get(&key(n)));
    }
}

#[test]
fn each_fault_says_what_was_found_and_what_to_do() {
    let key = crate::key::key_text(&[7; 32]);
    let texts = [
        (PackError::Malformed("no magic"), ["no magic", "build the crate again"]),
        (PackError::Version(7), ["version 7", "one version of cutile-build and cutile-embed"]),
        (PackError::Damaged, ["index", "build again"]),
        (PackError::DamagedEntry([7; 32]), [&key, "build again"]),
        (PackError::Codec(7), ["codec 7", "one version of cutile-build and cutile-embed"]),
        (PackError::Frame([7; 32]), [&key, "build again"]),
        (PackError::Conflict([7; 32]), [&key, "two different payloads"]),
    ];
    for (error, parts) in texts {
        let text = error.to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn long_names_are_cut_between_letters() {
    // 65,535 is odd: the last ä does not fit.
    let bytes = PackWriter::new(&"ä".repeat(40_000), "1").finish();
    assert_eq!(Pack::parse(&bytes).unwrap().package(), "ä".repeat(32_767));
}

#[cfg(feature = "zstd")]
mod compressed;
