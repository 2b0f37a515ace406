//! Every instruction set of this CPU against plain loops, bit by bit.

use std::sync::atomic::AtomicI32;

use dlrm_embedding_kernel::{
    Builder, Call, Dtype, Feature, Level, Outcome, OutputView, Plan, Policy, Pooling, Scratch, Source, Store, TableSpec, Update,
    find_out_of_vocabulary, gather,
};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as u32
    }
    fn float(&mut self) -> f32 {
        self.next() as f32 / (1u32 << 30) as f32 - 1.0
    }
    fn half_bits(&mut self) -> u16 {
        ((self.next() & 0x8000) | (self.next() % 19) << 10 | (self.next() & 0x3ff)) as u16
    }
}

fn half(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let fraction = f32::from(bits & 0x3ff);
    match bits >> 10 & 0x1f {
        0 => sign * fraction / 16_777_216.0,
        // A power of two by its bits.
        exponent => sign * (1.0 + fraction / 1024.0) * f32::from_bits((u32::from(exponent) + 112) << 23),
    }
}

fn random_rows(spec: &TableSpec, random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    let dim = spec.dim as usize;
    for _ in 0..spec.rows {
        match spec.dtype {
            Dtype::Float32 => (0..dim).for_each(|_| bytes.extend(random.float().to_le_bytes())),
            Dtype::Float16 => (0..dim).for_each(|_| bytes.extend(random.half_bits().to_le_bytes())),
            Dtype::Bfloat16 => (0..dim).for_each(|_| bytes.extend(&random.float().to_le_bytes()[2..])),
            Dtype::Int8 => {
                bytes.extend((0..dim).map(|_| random.next() as u8));
                bytes.extend(random.float().to_le_bytes());
                bytes.extend(random.float().to_le_bytes());
            }
            Dtype::Int4 => {
                bytes.extend((0..dim.div_ceil(2)).map(|_| random.next() as u8));
                bytes.extend(random.half_bits().to_le_bytes());
                bytes.extend(random.half_bits().to_le_bytes());
            }
        }
    }
    bytes
}

/// The pooled vector of the rows, in the plainest way.
fn expected_bag(spec: &TableSpec, bytes: &[u8], rows: &[u32], pooling: Pooling) -> Vec<f32> {
    expected_weighted_bag(spec, bytes, &rows.iter().map(|&row| (row, None)).collect::<Vec<_>>(), pooling)
}

/// The same of rows with weights.
fn expected_weighted_bag(spec: &TableSpec, bytes: &[u8], rows: &[(u32, Option<f32>)], pooling: Pooling) -> Vec<f32> {
    let dim = spec.dim as usize;
    let row_bytes = spec.row_bytes();
    let mut sum: Vec<Option<f32>> = vec![None; dim];
    let mut shift: Option<f32> = None;
    let f32_at = |row: &[u8], at: usize| f32::from_le_bytes(row[at..at + 4].try_into().unwrap());
    let u16_at = |row: &[u8], at: usize| u16::from_le_bytes(row[at..at + 2].try_into().unwrap());
    for &(row, weight) in rows {
        // A product with 1 changes nothing.
        let weight = weight.unwrap_or(1.0);
        let row = &bytes[row as usize * row_bytes..][..row_bytes];
        for (d, sum) in sum.iter_mut().enumerate() {
            let term = match spec.dtype {
                Dtype::Float32 => weight * f32_at(row, d * 4),
                Dtype::Float16 => weight * half(u16_at(row, d * 2)),
                Dtype::Bfloat16 => weight * f32::from_bits(u32::from(u16_at(row, d * 2)) << 16),
                Dtype::Int8 => weight * f32_at(row, dim) * f32::from(row[d]),
                Dtype::Int4 => weight * half(u16_at(row, row_bytes - 4)) * f32::from(row[d / 2] >> (d % 2 * 4) & 0xf),
            };
            *sum = Some(sum.map_or(term, |sum| sum + term));
        }
        let bias = match spec.dtype {
            Dtype::Int8 => weight * f32_at(row, dim + 4),
            Dtype::Int4 => weight * half(u16_at(row, row_bytes - 2)),
            _ => continue,
        };
        shift = Some(shift.map_or(bias, |shift| shift + bias));
    }
    sum.into_iter()
        .map(|sum| {
            let mut value = sum.unwrap_or(0.0);
            if let Some(shift) = shift {
                value += shift;
            }
            if pooling == Pooling::Mean && !rows.is_empty() {
                value /= rows.len() as f32;
            }
            value
        })
        .collect()
}

fn spec(name: &str, rows: u32, dim: u32, dtype: Dtype, policy: Policy) -> TableSpec {
    TableSpec { name: name.to_owned(), rows, dim, dtype, policy, source: Source::Memory }
}

fn store_of(tables: &[(TableSpec, Vec<u8>)]) -> Store {
    let mut builder = Builder::new(tables.iter().map(|(spec, _)| spec.clone()).collect(), false, false).unwrap();
    for (index, (_, bytes)) in tables.iter().enumerate() {
        builder.write(index, 0, bytes).unwrap();
    }
    builder.finish()
}

fn atomics(ids: &[i32]) -> Vec<AtomicI32> {
    ids.iter().map(|&id| AtomicI32::new(id)).collect()
}

fn run(store: &Store, plan: &Plan, scratch: &mut Scratch, ids: &[i32], batch: usize, rows: usize) -> (Outcome, Vec<f32>) {
    let mut output = vec![7.0; rows * plan.output_width()];
    // SAFETY: `output` is not used until the call is over.
    let view = unsafe { OutputView::new(output.as_mut_ptr(), output.len()) };
    let ids = atomics(ids);
    let call = Call { ids: &ids, lengths: None, weights: None, batch, output: view, output_row: 1 };
    (gather(store, plan, scratch, call), output)
}

const DTYPES: [Dtype; 5] = [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16, Dtype::Int8, Dtype::Int4];

#[test]
fn every_level_gives_the_bits_of_plain_loops() {
    let dims: &[u32] = if cfg!(miri) {
        &[1, 5, 33]
    } else {
        &[1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 65, 100, 127, 128, 129, 200, 256, 257, 300, 513, 1000, 1024]
    };
    let hot_sizes: &[u32] = if cfg!(miri) { &[1, 0, 2, 5] } else { &[1, 0, 2, 3, 8, 100, 27] };
    let mut random = Random(1);
    for &dim in dims {
        for dtype in DTYPES {
            let policies = [Policy::Error, Policy::Zero, Policy::DefaultRow(2), Policy::Modulo];
            let tables: Vec<_> = policies
                .into_iter()
                .enumerate()
                .map(|(at, policy)| {
                    let spec = spec("t", 3 + if cfg!(miri) { 2 } else { 50 } * at as u32, dim, dtype, policy);
                    let bytes = random_rows(&spec, &mut random);
                    (spec, bytes)
                })
                .collect();
            let store = store_of(&tables);
            let features: Vec<_> = hot_sizes
                .iter()
                .enumerate()
                .map(|(at, &hot_size)| Feature {
                    table: (at % tables.len()) as u32,
                    hot_size,
                    pooling: if at % 3 == 2 { Pooling::Mean } else { Pooling::Sum },
                })
                .collect();
            let plan = Plan::new(&store, &features).unwrap();
            // 150 examples are several blocks.
            for batch in if cfg!(miri) { [1, 3] } else { [1, 150] } {
                let mut ids = Vec::new();
                let mut expected = vec![7.0; (batch + 2) * plan.output_width()];
                let mut column = 0;
                for feature in &features {
                    let (spec, bytes) = &tables[feature.table as usize];
                    for b in 0..batch {
                        let mut rows = Vec::new();
                        for _ in 0..feature.hot_size {
                            let wild = spec.policy != Policy::Error && random.next().is_multiple_of(4);
                            let id = if wild { (random.next() << 1) as i32 } else { (random.next() % spec.rows) as i32 };
                            ids.push(id);
                            match spec.policy {
                                _ if id >= 0 && (id as u32) < spec.rows => rows.push(id as u32),
                                Policy::Error | Policy::Zero => {}
                                Policy::DefaultRow(row) => rows.push(row),
                                Policy::Modulo => rows.push(i64::from(id).rem_euclid(i64::from(spec.rows)) as u32),
                            }
                        }
                        let bag = expected_bag(spec, bytes, &rows, feature.pooling);
                        let at = (b + 1) * plan.output_width() + column;
                        expected[at..at + bag.len()].copy_from_slice(&bag);
                    }
                    column += spec.dim as usize;
                }
                for level in Level::available() {
                    let mut scratch = Scratch::new(level);
                    assert_eq!(scratch.level(), level);
                    for _ in 0..2 {
                        let (outcome, output) = run(&store, &plan, &mut scratch, &ids, batch, batch + 2);
                        assert_eq!(outcome, Outcome::Done);
                        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                        assert_eq!(bits(&output), bits(&expected), "{level:?} {dtype:?} dim {dim} batch {batch}");
                    }
                }
            }
        }
    }
}

#[test]
fn refuses_before_anything_is_written() {
    let spec = spec("t", 10, 4, Dtype::Float32, Policy::Error);
    let bytes = random_rows(&spec, &mut Random(2));
    let store = store_of(&[(spec, bytes)]);
    let feature = Feature { table: 0, hot_size: 2, pooling: Pooling::Sum };
    let plan = Plan::new(&store, &[feature, feature]).unwrap();
    let mut scratch = Scratch::new(Level::best());
    for bad in [10, -1, i32::MAX, i32::MIN] {
        for at in 0..8 {
            let mut ids = [9; 8];
            ids[at] = bad;
            let (outcome, output) = run(&store, &plan, &mut scratch, &ids, 2, 3);
            assert_eq!(outcome, Outcome::OutOfVocabulary(at));
            assert!(output.iter().all(|&value| value == 7.0));
            assert_eq!(find_out_of_vocabulary(&plan, &atomics(&ids), 2), outcome);
        }
    }
    for (ids, batch, rows) in [(7, 2, 3), (8, 2, 2), (8, usize::MAX, 3), (8, usize::MAX / 4 + 1, 3)] {
        let (outcome, output) = run(&store, &plan, &mut scratch, &vec![0; ids], batch, rows);
        assert_eq!(outcome, Outcome::TooShort);
        assert!(output.iter().all(|&value| value == 7.0));
    }
}

#[test]
fn ragged_bags_are_pooled_as_fixed_ones_of_their_lengths() {
    let spec = spec("t", 50, 33, Dtype::Float32, Policy::Error);
    let mut random = Random(3);
    let bytes = random_rows(&spec, &mut random);
    let store = store_of(&[(spec.clone(), bytes.clone())]);
    let feature = |pooling| Feature { table: 0, hot_size: 0, pooling };
    let poolings = [Pooling::Sum, Pooling::Mean];
    let plan = Plan::new(&store, &poolings.map(feature)).unwrap();
    let batch = if cfg!(miri) { 5 } else { 3000 };
    let mut lengths = Vec::new();
    let mut ids = Vec::new();
    let mut expected = vec![7.0; (batch + 2) * 66];
    for (at, &pooling) in poolings.iter().enumerate() {
        for b in 0..batch {
            let rows: Vec<u32> = (0..random.next() % 6).map(|_| random.next() % 50).collect();
            let bag = expected_bag(&spec, &bytes, &rows, pooling);
            expected[(b + 1) * 66 + at * 33..][..33].copy_from_slice(&bag);
            lengths.push(rows.len() as i32);
            ids.extend(rows.iter().map(|&row| row as i32));
        }
    }
    let mut scratch = Scratch::new(Level::best());
    let mut run = |ids: &[i32], lengths: &[i32]| {
        let mut output = vec![7.0; (batch + 2) * 66];
        // SAFETY: `output` is not used until the call is over.
        let view = unsafe { OutputView::new(output.as_mut_ptr(), output.len()) };
        let (ids, lengths) = (atomics(ids), atomics(lengths));
        let call = Call { ids: &ids, lengths: Some(&lengths), weights: None, batch, output: view, output_row: 1 };
        let outcome = gather(&store, &plan, &mut scratch, call);
        (outcome, output)
    };
    assert_eq!(run(&ids, &lengths), (Outcome::Done, expected));
    let untouched = vec![7.0; (batch + 2) * 66];
    assert_eq!(run(&ids[1..], &lengths), (Outcome::TooShort, untouched.clone()));
    assert_eq!(run(&ids, &lengths[1..]), (Outcome::TooShort, untouched.clone()));
    for bad in [-1, i32::MIN, i32::MAX] {
        let mut lengths = lengths.clone();
        lengths[batch + 1] = bad;
        assert_eq!(run(&ids, &lengths), (Outcome::TooShort, untouched.clone()));
    }
    let last = ids.len() - 1;
    ids[last] = 50;
    assert_eq!(run(&ids, &lengths), (Outcome::OutOfVocabulary(last), untouched));
}

#[test]
fn weights_multiply_rows_on_every_level() {
    let dims: &[u32] = if cfg!(miri) { &[5] } else { &[1, 7, 16, 33, 128, 300] };
    let mut random = Random(4);
    for &dim in dims {
        for dtype in DTYPES {
            let spec = spec("t", 40, dim, dtype, Policy::Zero);
            let bytes = random_rows(&spec, &mut random);
            let store = store_of(&[(spec.clone(), bytes.clone())]);
            let poolings = [Pooling::Sum, Pooling::Mean];
            let plan = Plan::new(&store, &poolings.map(|pooling| Feature { table: 0, hot_size: 3, pooling })).unwrap();
            // 1,000 examples are several blocks.
            let batch = if cfg!(miri) { 3 } else { 1000 };
            let width = plan.output_width();
            let ids: Vec<i32> = (0..batch * 6).map(|_| (random.next() % 44) as i32).collect();
            let weights: Vec<f32> = ids.iter().map(|_| random.float()).collect();
            let mut expected = vec![7.0; (batch + 2) * width];
            for (f, &pooling) in poolings.iter().enumerate() {
                for b in 0..batch {
                    let bag = (batch * f + b) * 3..(batch * f + b) * 3 + 3;
                    let rows: Vec<_> = ids[bag.clone()].iter().zip(&weights[bag]).filter(|(id, _)| **id < 40).collect();
                    let rows: Vec<_> = rows.into_iter().map(|(&id, &weight)| (id as u32, Some(weight))).collect();
                    let bag = expected_weighted_bag(&spec, &bytes, &rows, pooling);
                    let at = (b + 1) * width + f * dim as usize;
                    expected[at..at + bag.len()].copy_from_slice(&bag);
                }
            }
            let ids = atomics(&ids);
            let bits = atomics(&weights.iter().map(|weight| weight.to_bits() as i32).collect::<Vec<_>>());
            let lengths = atomics(&vec![3; batch * 2]);
            for level in Level::available() {
                let mut scratch = Scratch::new(level);
                for lengths in [None, Some(&lengths[..])] {
                    let mut output = vec![7.0; (batch + 2) * width];
                    // SAFETY: `output` is not used until the call is over.
                    let view = unsafe { OutputView::new(output.as_mut_ptr(), output.len()) };
                    let call = Call { ids: &ids, lengths, weights: Some(&bits), batch, output: view, output_row: 1 };
                    assert_eq!(gather(&store, &plan, &mut scratch, call), Outcome::Done);
                    let equal = output.iter().zip(&expected).all(|(one, other)| one.to_bits() == other.to_bits());
                    assert!(equal, "{level:?} {dtype:?} dim {dim}");
                    let few = Call { weights: Some(&bits[1..]), ..call };
                    assert_eq!(gather(&store, &plan, &mut scratch, few), Outcome::TooShort);
                }
            }
        }
    }
}

#[test]
fn refuses_a_plan_of_another_store() {
    let spec = spec("t", 1, 1, Dtype::Float32, Policy::Error);
    let one = store_of(&[(spec.clone(), vec![0; 4])]);
    let other = store_of(&[(spec, vec![0; 4])]);
    let plan = Plan::new(&one, &[Feature { table: 0, hot_size: 1, pooling: Pooling::Sum }]).unwrap();
    let (outcome, _) = run(&other, &plan, &mut Scratch::new(Level::best()), &[0], 1, 2);
    assert_eq!(outcome, Outcome::WrongStore);
    assert!(Plan::new(&one, &[Feature { table: 1, hot_size: 1, pooling: Pooling::Sum }]).is_none());
}

#[test]
fn an_update_is_seen_whole_or_not_at_all() {
    // Rows of 512 KiB: a chunk holds four, so that updates cross chunks.
    let dim = if cfg!(miri) { 16 } else { 131_072 };
    let rows = 12u32;
    let spec = spec("t", rows, dim, Dtype::Float32, Policy::Error);
    let row_bytes = spec.row_bytes();
    let store = store_of(&[(spec, vec![0; row_bytes * rows as usize])]);
    let plan = Plan::new(&store, &[Feature { table: 0, hot_size: 2, pooling: Pooling::Sum }]).unwrap();
    let updates = if cfg!(miri) { 3 } else { 40 };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut scratch = Scratch::new(Level::best());
                let mut last = 0.0;
                while last < updates as f32 * 2.0 {
                    // Rows of different chunks, always set together.
                    let (outcome, output) = run(&store, &plan, &mut scratch, &[1, 10], 1, 2);
                    assert_eq!(outcome, Outcome::Done);
                    let pooled = &output[dim as usize..];
                    assert!(pooled.iter().all(|value| *value == pooled[0]), "torn");
                    assert_eq!(pooled[0] % 2.0, 0.0, "half an update");
                    assert!(pooled[0] >= last, "back in time");
                    last = pooled[0];
                }
            });
        }
        for epoch in 1..=updates {
            let bytes: Vec<u8> = (0..dim).flat_map(|_| (epoch as f32).to_le_bytes()).collect();
            let update = |first_row| Update { table: 0, first_row, bytes: &bytes };
            assert_eq!(store.update(&[update(1), update(10)]), Ok(epoch as u64));
        }
    });
    let all: Vec<u8> = (0..rows).flat_map(|row| (0..dim).flat_map(move |_| (row as f32).to_le_bytes())).collect();
    store.update(&[Update { table: 0, first_row: 0, bytes: &all }]).unwrap();
    let (_, output) = run(&store, &plan, &mut Scratch::new(Level::best()), &[11, 4], 1, 2);
    assert!(output[dim as usize..].iter().all(|&value| value == 15.0));
}

#[test]
fn an_update_out_of_range_changes_nothing() {
    let spec = spec("t", 4, 2, Dtype::Float32, Policy::Error);
    let store = store_of(&[(spec, vec![0; 32])]);
    let good = Update { table: 0, first_row: 0, bytes: &[1; 8] };
    for (table, first_row, len) in [(1, 0, 8), (0, 4, 8), (0, 3, 16), (0, 0, 7), (0, u32::MAX, 8)] {
        let bytes = vec![1; len];
        assert!(
            store
                .update(&[
                    Update { table: good.table, first_row: good.first_row, bytes: good.bytes },
                    Update { table, first_row, bytes: &bytes }
                ])
                .is_err()
        );
    }
    assert_eq!(store.epoch(), 0);
}
