//! Pages: a client asks for a page, then for all the objects that it names, and after thinking for the next page.
//! Measured by the time of each page.

use super::{Kind, Purpose, span};
use crate::error::SpecError;
use crate::units::{Bytes, Nanos};
use serde::Deserialize;
use std::sync::Arc;

/// Most objects of a page.
const MOST_OBJECTS: u32 = 10_000;

/// Pages on one connection. The objects are asked for together, as soon as the page itself has arrived, and answered in
/// their order, as with HTTP/2 without priorities. The data receiver is the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// Payload of a request.
    pub request_bytes: Bytes,
    /// Payload of the page itself.
    pub page_bytes: Bytes,
    /// Objects that it names.
    pub objects: u32,
    /// Payload of an object.
    pub object_bytes: Bytes,
    /// Time from a page that is whole to the next request.
    #[serde(default)]
    pub think_ns: Nanos,
    /// The client asks for pages for this long.
    pub duration_ns: Nanos,
    /// Time after `duration_ns` within which the last page is to be whole.
    pub patience_ns: Nanos,
}

impl Kind for Page {
    fn purpose(&self) -> Option<Arc<dyn Purpose>> {
        Some(Arc::new(*self))
    }

    fn limit(&self) -> Nanos {
        self.duration_ns + self.patience_ns
    }

    /// Each request and response is to have less than 2^24 segments.
    fn validate(&self, segment: u32) -> Result<(), SpecError> {
        let sizes = [
            ("request_bytes", self.request_bytes),
            ("page_bytes", self.page_bytes),
            ("object_bytes", self.object_bytes),
        ];
        for (key, bytes) in sizes {
            span::check_payload(key, bytes, segment)?;
        }
        if self.objects == 0 || self.objects > MOST_OBJECTS {
            let expected = format!("expected 1 to {MOST_OBJECTS}, found {}", self.objects);
            return Err(SpecError::new("objects", expected));
        }
        span::check_client(self.duration_ns, self.patience_ns, self.think_ns)
    }
}

impl Purpose for Page {
    fn request_bytes(&self) -> Bytes {
        self.request_bytes
    }

    fn parts(&self) -> u32 {
        self.objects + 1
    }

    fn response_bytes(&self, number: u64, _choice: u8) -> Bytes {
        let is_page = number.is_multiple_of(u64::from(self.parts()));
        if is_page { self.page_bytes } else { self.object_bytes }
    }

    fn duration(&self) -> Nanos {
        self.duration_ns
    }

    fn think(&self) -> Nanos {
        self.think_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::SECOND;

    #[test]
    fn what_no_page_can_have_is_refused() {
        let page = Page {
            request_bytes: 400,
            page_bytes: 30_000,
            objects: 10,
            object_bytes: 20_000,
            think_ns: 0,
            duration_ns: SECOND,
            patience_ns: SECOND,
        };
        let key = |page: Page| page.validate(1448).map_err(|error| error.key);
        assert_eq!((key(page), page.limit()), (Ok(()), 2 * SECOND));
        for (wrong, name) in [
            (Page { request_bytes: 0, ..page }, "request_bytes"),
            (Page { page_bytes: 0, ..page }, "page_bytes"),
            (Page { object_bytes: 1 << 40, ..page }, "object_bytes"),
            (Page { objects: 0, ..page }, "objects"),
            (Page { think_ns: SECOND, ..page }, "think_ns"),
            (Page { duration_ns: 0, ..page }, "duration_ns"),
        ] {
            assert_eq!(key(wrong), Err(name.into()));
        }
    }
}
