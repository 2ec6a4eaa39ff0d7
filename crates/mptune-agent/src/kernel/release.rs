//! The release of the kernel.

use std::fs;

/// Its first two numbers; zeros if it does not tell.
pub fn release() -> (u32, u32) {
    numbers(&fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default())
}

fn numbers(text: &str) -> (u32, u32) {
    let mut parts = text.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
    let mut next = || parts.next().and_then(Result::ok).unwrap_or_default();
    (next(), next())
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn the_first_two_numbers_count() {
        for (text, expected) in [
            ("6.18.44-fc-v669\n", (6, 18)),
            ("7.3+deb14-amd64", (7, 3)),
            ("6.1", (6, 1)),
            ("", (0, 0)),
            ("next", (0, 0)),
        ] {
            assert_eq!(numbers(text), expected, "{text}");
        }
    }
}
