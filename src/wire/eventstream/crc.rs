//! The checksum of Ethernet and zip files.

use std::sync::LazyLock;

/// The reversed polynomial.
const POLYNOMIAL: u32 = 0xEDB8_8320;

/// What each byte adds.
static TABLE: LazyLock<[u32; 256]> = LazyLock::new(|| {
    let mut next = 0_u32..;
    std::array::from_fn(|_| (0..8).fold(next.next().unwrap_or(0), |crc, _| shifted(crc)))
});

const fn shifted(crc: u32) -> u32 {
    if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 }
}

/// The checksum of some bytes.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    let table = &*TABLE;
    let add = |crc: u32, byte: &u8| {
        let [low, ..] = crc.to_le_bytes();
        let added = table.get(usize::from(low ^ byte)).copied().unwrap_or(0);
        (crc >> 8) ^ added
    };
    !bytes.iter().fold(u32::MAX, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_check_value_comes_out() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(b""), 0);
    }
}
