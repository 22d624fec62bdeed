//! Entries with codec 1.

use super::*;

/// What a cubin is to zstd: much of the same, and some noise.
fn plain(len: usize) -> Vec<u8> {
    let mut state = 1u32;
    (0..len)
        .map(|at| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if at % 16 == 0 { (state >> 24) as u8 } else { (at / 64) as u8 }
        })
        .collect()
}

fn writer(entries: &[(u8, Vec<u8>)]) -> PackWriter {
    let mut writer = PackWriter::new("crate", "1.0.0").compress(3);
    for (key, payload) in entries {
        writer.insert([*key; 32], payload.clone()).unwrap();
    }
    writer
}

/// A pack of one entry, stored as `frame` and said to have `plain_len` bytes, with good digests.
fn pack_of(frame: &[u8], plain_len: u32) -> Vec<u8> {
    let mut writer = PackWriter::new("crate", "1.0.0");
    writer.insert([1; 32], frame.to_vec()).unwrap();
    let mut bytes = writer.finish();
    bytes[INDEX + 48] = 1;
    bytes[INDEX + 52..INDEX + 56].copy_from_slice(&plain_len.to_le_bytes());
    let mut digest = Sha256::new();
    digest.update(&bytes[..48]);
    digest.update(&bytes[HEADER_LEN..INDEX + ROW_LEN]);
    bytes[48..80].copy_from_slice(&digest.finalize());
    bytes
}

fn frame(plain: &[u8]) -> Vec<u8> {
    zstd::compress(plain, 3).unwrap()
}

/// What comes out of such a pack, both ways that there are to read it.
fn read(frame: &[u8], plain_len: u32) -> Result<Vec<u8>, PackError> {
    let bytes = pack_of(frame, plain_len);
    let entry = Pack::parse(&bytes)?.get(&[1; 32]).unwrap();
    let mut decoder = Decoder::new();
    let found = decoder.payload(&entry).map(<[u8]>::to_vec);
    assert!(decoder.plain.capacity() <= plain_len as usize, "{}", decoder.plain.capacity());
    assert_eq!(entry.payload().map(Cow::into_owned), found);
    assert_eq!(decoder.owned(&entry).map(Cow::into_owned), found);
    assert_eq!(decoder.unchecked(&entry).map(<[u8]>::to_vec), found.clone().ok());
    assert_eq!(entry.unchecked().map(Cow::into_owned), found.clone().ok());
    found
}

#[test]
fn what_is_put_in_comes_out_and_is_stored_shorter() {
    let entries = [(1, plain(50_000)), (2, vec![]), (3, plain(9_000)), (9, vec![7; 4096])];
    let bytes = writer(&entries).finish();
    assert!(bytes.len() < 30_000, "{}", bytes.len());
    let pack = Pack::parse(&bytes).unwrap();
    let mut decoder = Decoder::new();
    // Back and forth: the decoder keeps nothing of the entry before.
    for (key, payload) in entries.iter().chain(entries.iter().rev()) {
        let entry = pack.get(&[*key; 32]).unwrap();
        assert_eq!(entry.plain_len, payload.len());
        assert_eq!(entry.codec, u32::from(!payload.is_empty()));
        assert_eq!(&*entry.payload().unwrap(), payload);
        assert_eq!(decoder.payload(&entry).unwrap(), payload);
        assert_eq!(decoder.unchecked(&entry), Some(&payload[..]));
    }
    // Not what zstd keeps.
    assert!(format!("{decoder:?}").contains("context: Context"), "{decoder:?}");
}

#[test]
fn what_gets_no_shorter_is_left_raw() {
    let mut state = 1u64;
    let noise: Vec<u8> = (0..4096)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect();
    let bytes = writer(&[(1, noise.clone()), (2, b"short".to_vec())]).finish();
    let pack = Pack::parse(&bytes).unwrap();
    assert!(pack.entries().all(|entry| entry.codec == 0 && entry.plain_len == entry.stored.len()));
    assert_eq!(&*pack.get(&[1; 32]).unwrap().payload().unwrap(), &noise);
}

#[test]
fn the_same_entries_give_the_same_bytes() {
    let mut entries = [(1, plain(50_000)), (3, plain(9_000))];
    let bytes = writer(&entries).finish();
    entries.reverse();
    assert_eq!(writer(&entries).finish(), bytes);
}

#[test]
fn a_frame_is_decoded_to_the_length_in_the_index_and_no_other() {
    let plain = plain(20_000);
    let frame = frame(&plain);
    assert_eq!(read(&frame, 20_000), Ok(plain));
    let wrong = Err(PackError::Frame([1; 32]));
    for length in [frame.len() as u32 + 1, 19_999, 20_001, 1 << 20] {
        assert_eq!(read(&frame, length), wrong, "{length}");
    }
}

#[test]
fn what_is_not_one_whole_frame_is_an_error() {
    let plain = plain(20_000);
    let frame = frame(&plain);
    let wrong = Err(PackError::Frame([1; 32]));
    for cut in (0..frame.len()).step_by(7).chain([frame.len() - 1]) {
        assert_eq!(read(&frame[..cut], 20_000), wrong, "cut at {cut}");
    }
    assert_eq!(read(&plain[..1000], 20_000), wrong);
    // More behind it: a byte, an empty frame, one that is skipped.
    let empty = zstd::compress(b"", 3).unwrap();
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0];
    for more in [&[0][..], &empty, &skipped] {
        assert_eq!(read(&[&frame, more].concat(), 20_000), wrong);
        assert_eq!(read(&[more, &frame].concat(), 20_000), wrong);
    }
}

/// 1 kB that says it is 1 GB: the index bounds it before anything is allocated.
#[test]
fn a_bomb_is_refused_unpacked() {
    // Magic; one segment, length in 8 bytes; 1 GB; blocks that repeat a byte 128 kB times.
    let bomb = |stated: u64, blocks: usize| {
        let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0b1110_0000];
        bomb.extend_from_slice(&stated.to_le_bytes());
        for block in 1..=blocks {
            let header = u32::from(block == blocks) | 1 << 1 | (128 << 10) << 3;
            bomb.extend_from_slice(&header.to_le_bytes()[..3]);
            bomb.push(0);
        }
        bomb
    };
    assert_eq!(read(&bomb(2 << 17, 2), 2 << 17), Ok(vec![0; 2 << 17]));
    let wrong = Err(PackError::Frame([1; 32]));
    assert_eq!(read(&bomb(1 << 30, 250), 4096), wrong);
    // It says what the index says, and holds more.
    assert_eq!(read(&bomb(4096, 250), 4096), wrong);
    assert!(matches!(read(&bomb(1 << 30, 250), 1 << 30), Err(PackError::Malformed(_))));
}

#[test]
fn the_digest_is_compared_before_anything_is_decoded() {
    let mut bytes = pack_of(&frame(&plain(20_000)), 20_000);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let entry = Pack::parse(&bytes).unwrap().get(&[1; 32]).unwrap();
    let damaged = PackError::DamagedEntry([1; 32]);
    assert_eq!(entry.payload(), Err(damaged.clone()));
    let mut decoder = Decoder::new();
    assert_eq!(decoder.payload(&entry), Err(damaged));
    assert_eq!(decoder.plain.capacity(), 0);
}

proptest! {
    #[test]
    fn no_frame_makes_it_panic(
        edits in prop::collection::vec((0usize..4000, any::<u8>()), 1..8),
        garbage in prop::collection::vec(any::<u8>(), 0..300),
        length in 0u32..40_000,
    ) {
        let mut edited = frame(&plain(20_000));
        for (at, byte) in edits {
            let len = edited.len();
            edited[at % len] = byte;
        }
        let _ = read(&edited, 20_000);
        let _ = read(&garbage, length);
        let _ = read(&[&edited[..5], &garbage].concat(), length);
    }
}
