//! The order of the rows that experts compute: sorted by expert, so that each expert has a range of them.
//!
//! It is a counting sort on the host. A tensor expression says what each element of a result *is*, and the place of a
//! row is what has to be found: that would be a search for each row. The host reads one number for each token and
//! expert. On a GPU this is the only moment at which it waits for the device.

/// Where everything is. A *choice* is a token's `j`-th expert, and has the number `j · tokens + token`.
#[derive(Debug, PartialEq)]
pub(crate) struct Order {
    /// Where each expert's rows begin, and where the last one's end: `[experts + 1]`.
    pub(crate) offsets: Vec<i32>,
    /// The token of each row: `[rows]`.
    pub(crate) tokens: Vec<i32>,
    /// The choice of each row: `[rows]`.
    pub(crate) choices: Vec<i32>,
}

impl Order {
    /// Sorts choices by their experts, and those of one expert by their number.
    pub(crate) fn of(experts_of_choices: &[i32], experts: usize, tokens: usize) -> Self {
        let mut offsets = vec![0; experts + 1];
        for expert in experts_of_choices {
            offsets[*expert as usize + 1] += 1;
        }
        for expert in 0..experts {
            offsets[expert + 1] += offsets[expert];
        }
        let mut next = offsets.clone();
        let count = experts_of_choices.len();
        let mut order = Self { offsets, tokens: vec![0; count], choices: vec![0; count] };
        for (choice, expert) in experts_of_choices.iter().enumerate() {
            let row = &mut next[*expert as usize];
            order.tokens[*row as usize] = (choice % tokens) as i32;
            order.choices[*row as usize] = choice as i32;
            *row += 1;
        }
        order
    }

    /// How many rows each expert has.
    pub(crate) fn counts(&self) -> Vec<usize> {
        self.offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize).collect()
    }
}
