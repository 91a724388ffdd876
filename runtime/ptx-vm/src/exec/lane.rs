//! The types as which a register's lane is read.

/// A value of one lane. Values of up to 32 bits live in a `u32` cell, zero-extended; wider ones in a `u64` cell.
pub(crate) trait Lane: Copy {
    type Cell: Copy + Default + PartialEq;
    fn from_cell(cell: Self::Cell) -> Self;
    fn to_cell(self) -> Self::Cell;
}

macro_rules! lane {
    ($($type:ty, $cell:ty, $cell_value:ident => $from:expr, $value:ident => $to:expr;)*) => {$(
        impl Lane for $type {
            type Cell = $cell;
            #[inline(always)]
            fn from_cell($cell_value: $cell) -> Self {
                $from
            }
            #[inline(always)]
            fn to_cell(self) -> $cell {
                let $value = self;
                $to
            }
        }
    )*};
}

lane! {
    u8, u32, c => c as u8, v => u32::from(v);
    i8, u32, c => c as i8, v => u32::from(v as u8);
    u16, u32, c => c as u16, v => u32::from(v);
    i16, u32, c => c as i16, v => u32::from(v as u16);
    u32, u32, c => c, v => v;
    i32, u32, c => c as i32, v => v as u32;
    u64, u64, c => c, v => v;
    i64, u64, c => c as i64, v => v as u64;
    f32, u32, c => f32::from_bits(c), v => v.to_bits();
    f64, u64, c => f64::from_bits(c), v => v.to_bits();
}
