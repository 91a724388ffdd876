//! The variables of a memory space, and the bytes between them that belong to none.

/// The variables of one space.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    /// Name, offset and size of each, in order.
    pub(crate) names: Vec<(String, u32, u32)>,
    /// Start and end of the bytes that belong to none, in order.
    pub(crate) gaps: Vec<(u32, u32)>,
}

impl Variables {
    /// If an access touches bytes between two variables: where it is. `space` is `shared` or `local`.
    #[cold]
    pub(crate) fn past(&self, space: &str, offset: u32, bytes: u32) -> Option<String> {
        let gap = self.gaps.iter().find(|(start, end)| offset < *end && offset + bytes > *start)?;
        let (name, start, size) = self.names.iter().rfind(|(_, start, _)| *start < gap.0)?;
        let end = start + size;
        Some(match offset.checked_sub(end) {
            Some(distance) => format!("{distance} bytes past the end of {space} variable `{name}` of {size} bytes"),
            None => format!("across the end of {space} variable `{name}` of {size} bytes"),
        })
    }

    /// Whether any byte from `low` to `high` may lie between two variables. Accesses usually stay in one variable, before
    /// the first gap that ends after their start.
    #[inline(always)]
    pub(crate) fn may_pass(&self, low: u32, high: u32) -> bool {
        self.gaps.iter().find(|(_, end)| *end > low).is_some_and(|(start, _)| high > *start)
    }
}
