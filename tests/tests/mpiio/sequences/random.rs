//! Numbers from a seed (SplitMix64: Steele, Lea and Flood, *Fast splittable pseudorandom number generators*).

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed ^ 0x5851_f42d_4c95_7f2d)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// At least 0, and less than the limit, if that is positive.
    pub fn below(&mut self, bound: i64) -> i64 {
        if bound > 0 { (self.next() % bound.unsigned_abs()) as i64 } else { 0 }
    }

    pub fn index(&mut self, count: usize) -> usize {
        self.below(count as i64) as usize
    }

    /// True once in so many times.
    pub fn one_in(&mut self, many: i64) -> bool {
        self.below(many) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }

    /// A divisor of a number, not larger than the limit.
    pub fn divisor(&mut self, of: i64, bound: i64) -> i64 {
        let small: Vec<i64> = (1..=of.min(bound).min(512)).filter(|d| of % d == 0).collect();
        if small.is_empty() { 1 } else { self.pick(&small) }
    }
}
