//! Weights from safetensors files: every missing or unfit tensor is reported in one error.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use eindecomp_core::ein::DType;
use eindecomp_core::plan::Region;
use eindecomp_runtime::{Contents, Data, Element, Tensor, TensorSource};
use ndarray::Dimension;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use serde::Deserialize;

use crate::model::{Array, to_array};
use crate::{Error, nearest};

/// Runs of bytes that are less apart than this are read together: a page.
const NEAR: u64 = 4 << 10;
/// But not more than this at once.
const READ: u64 = 1 << 20;
/// Bytes of a header, at most: as the format says.
const HEADER: u64 = 100_000_000;

/// An open safetensors file, or those of an index. What is not asked for is not read.
pub struct WeightsFile {
    path: PathBuf,
    tensors: BTreeMap<String, (Arc<OnDisk>, TensorInfo)>,
    errors: Vec<Error>,
}

/// What an index, `model.safetensors.index.json`, says: in which file beside it each tensor is.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

struct OnDisk {
    path: PathBuf,
    /// Where the data begin.
    data: u64,
    file: Mutex<File>,
}

impl OnDisk {
    /// Appends the bytes of several ranges, each a start and a length, ascending.
    fn read(&self, ranges: impl Iterator<Item = (u64, u64)>, out: &mut Vec<u8>) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut ranges, mut more, mut window) = (ranges.peekable(), Vec::new(), Vec::new());
        while let Some((start, length)) = ranges.next() {
            let mut end = start + length;
            let near = |end, (next, length): &(u64, u64)| {
                *next < end + NEAR && next + length <= start + READ
            };
            while let Some(range) = ranges.next_if(|range| near(end, range)) {
                end = range.0 + range.1;
                more.push(range);
            }
            let at = out.len();
            file.seek(SeekFrom::Start(start))?;
            if more.is_empty() {
                out.resize(at + length as usize, 0);
                file.read_exact(&mut out[at..])?;
                continue;
            }
            window.resize((end - start) as usize, 0);
            file.read_exact(&mut window)?;
            for (from, length) in std::iter::once((start, length)).chain(more.drain(..)) {
                let from = (from - start) as usize;
                out.extend_from_slice(&window[from..from + length as usize]);
            }
        }
        Ok(())
    }
}

fn wrong(path: &Path, message: String) -> Error {
    Error::WeightsFile {
        path: path.to_path_buf(),
        message,
    }
}

/// A tensor in a file. Boxes of it are read when they are needed, and only these.
#[derive(Clone)]
pub struct StoredTensor {
    file: Arc<OnDisk>,
    dtype: DType,
    shape: Vec<usize>,
    /// Its first byte.
    start: u64,
}

impl StoredTensor {
    /// Where in the file the elements of a box are, in their order: start and length of each run.
    fn runs(&self, region: &Region) -> impl Iterator<Item = (u64, u64)> {
        let size = self.dtype.size() as u64;
        // The axes behind this one are read whole.
        let whole = |axis: usize| region.0[axis] == (0, self.shape[axis]);
        let mut last = self.shape.len();
        while last > 0 && whole(last - 1) {
            last -= 1;
        }
        let last = last.saturating_sub(1);
        let inner: u64 = self.shape[last..]
            .iter()
            .skip(1)
            .map(|&n| n as u64)
            .product();
        let along = region
            .0
            .get(last)
            .map_or((0, 1), |&(lo, hi)| (lo as u64, hi as u64));
        let outer: Vec<(u64, u64, u64)> = (region.0[..last].iter().zip(&self.shape))
            .map(|(&(lo, hi), &extent)| (lo as u64, (hi - lo) as u64, extent as u64))
            .collect();
        let count: u64 = outer.iter().map(|(_, n, _)| n).product();
        let extent = self.shape.get(last).map_or(1, |&n| n as u64);
        let (start, length) = (self.start, (along.1 - along.0) * inner * size);
        let run = move |mut number: u64| {
            let (mut row, mut stride) = (0, 1);
            for (lo, n, extent) in outer.iter().rev() {
                row += (lo + number % n) * stride;
                (number, stride) = (number / n, stride * extent);
            }
            let first = (row * extent + along.0) * inner;
            (start + first * size, length)
        };
        (0..count).map(run).filter(|(_, length)| *length > 0)
    }

    /// All of it; `name` is for the error.
    fn whole(&self, name: &str) -> Result<Tensor, Error> {
        let read = self.tensor(&Region::whole(&self.shape));
        read.map_err(|e| wrong(&self.file.path, format!("`{name}`: {e}")))
    }

    fn tensor(&self, region: &Region) -> io::Result<Tensor> {
        let mut bytes = Vec::with_capacity(region.volume() * self.dtype.size());
        self.file.read(self.runs(region), &mut bytes)?;
        let data = Data::from_bytes(self.dtype, &bytes);
        let tensor = data.and_then(|data| Tensor::new(region.shape(), data));
        tensor
            .ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "not the bytes of its elements"))
    }
}

impl TensorSource for StoredTensor {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn contents(&self, region: &Region) -> io::Result<Contents<'_>> {
        let with_path = |e: io::Error| {
            let path = self.file.path.display();
            io::Error::new(e.kind(), format!("weights file {path}: {e}"))
        };
        self.tensor(region).map(Contents::Box).map_err(with_path)
    }
}

/// A weight that is given, or in a file.
pub(crate) enum Weight {
    Given(Tensor),
    Stored(StoredTensor),
}

impl TensorSource for Weight {
    fn dtype(&self) -> DType {
        match self {
            Weight::Given(tensor) => tensor.dtype(),
            Weight::Stored(tensor) => tensor.dtype,
        }
    }

    fn shape(&self) -> &[usize] {
        match self {
            Weight::Given(tensor) => tensor.shape(),
            Weight::Stored(tensor) => &tensor.shape,
        }
    }

    fn contents(&self, region: &Region) -> io::Result<Contents<'_>> {
        match self {
            Weight::Given(tensor) => tensor.contents(region),
            Weight::Stored(tensor) => tensor.contents(region),
        }
    }
}

impl WeightsFile {
    /// Opens a file and reads what it says of its tensors; of an index, a name with the ending `json`
    /// (`model.safetensors.index.json`), every file that it names.
    ///
    /// # Errors
    /// [`Error::WeightsFile`]: it cannot be read, is no safetensors file or index, or is cut short; a tensor is not
    /// in the file that the index says.
    pub fn open(path: impl AsRef<Path>) -> Result<WeightsFile, Error> {
        let path = path.as_ref();
        let tensors = match path.extension() {
            Some(ending) if ending == "json" => indexed(path)?,
            _ => {
                let (file, metadata) = head(path)?;
                let tensors = metadata.tensors().into_iter();
                tensors
                    .map(|(name, info)| (name, (file.clone(), info.clone())))
                    .collect()
            }
        };
        Ok(WeightsFile {
            path: path.to_path_buf(),
            tensors,
            errors: Vec::new(),
        })
    }

    /// Names of all tensors.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// One tensor, of which nothing is read yet.
    ///
    /// # Errors
    /// [`Error::MissingTensor`] with the nearest name; [`Error::WeightsFile`] for an element type
    /// that the language does not have.
    pub fn stored(&self, name: &str) -> Result<StoredTensor, Error> {
        let found = self.tensors.get(name);
        let (file, info) = found.ok_or_else(|| Error::MissingTensor {
            name: name.into(),
            near: nearest(name, self.names()).map(str::to_owned),
        })?;
        let dtype = match info.dtype {
            Dtype::F64 => DType::F64,
            Dtype::F32 => DType::F32,
            Dtype::BF16 => DType::BF16,
            Dtype::F16 => DType::F16,
            Dtype::I64 => DType::I64,
            Dtype::I32 => DType::I32,
            Dtype::U32 => DType::U32,
            Dtype::U8 => DType::U8,
            Dtype::BOOL => DType::Bool,
            other => {
                let message = format!(
                    "`{name}` has element type {other:?}, which the language does not have"
                );
                return Err(wrong(&file.path, message));
            }
        };
        Ok(StoredTensor {
            file: file.clone(),
            dtype,
            shape: info.shape.clone(),
            start: file.data + info.data_offsets.0 as u64,
        })
    }

    /// One tensor as it is stored.
    ///
    /// # Errors
    /// As [`WeightsFile::stored`], and one that cannot be read.
    pub fn tensor(&self, name: &str) -> Result<Tensor, Error> {
        self.stored(name)?.whole(name)
    }

    /// One tensor as a typed array; empty, and an error noted for [`WeightsFile::finish`], if it
    /// is not there or of another type.
    pub fn take<D: Element, const RANK: usize>(&mut self, name: &str) -> Array<D, RANK>
    where
        ndarray::Dim<[usize; RANK]>: Dimension,
    {
        let typed = self.typed(name, D::DTYPE, RANK);
        let read = typed.and_then(|stored| to_array(name, stored.whole(name)?));
        let none = || Array::default(ndarray::Dim::<[usize; RANK]>::default());
        self.noted(read).unwrap_or_else(none)
    }

    /// One tensor of an element type and rank, as [`WeightsFile::stored`]; `None`, and an error noted for
    /// [`WeightsFile::finish`], if it is not there or of another type.
    pub(crate) fn find(&mut self, name: &str, dtype: DType, rank: usize) -> Option<StoredTensor> {
        let typed = self.typed(name, dtype, rank);
        self.noted(typed)
    }

    fn typed(&self, name: &str, dtype: DType, rank: usize) -> Result<StoredTensor, Error> {
        let stored = self.stored(name)?;
        let (given, given_rank) = (stored.dtype, stored.shape.len());
        match (given, given_rank) == (dtype, rank) {
            true => Ok(stored),
            false => Err(Error::TensorType {
                name: name.into(),
                expected: dtype,
                expected_rank: rank,
                given,
                given_rank,
            }),
        }
    }

    fn noted<T>(&mut self, found: Result<T, Error>) -> Option<T> {
        found.map_err(|error| self.errors.push(error)).ok()
    }

    /// `weights`, unless some tensor was missing or unfit.
    ///
    /// # Errors
    /// [`Error::Weights`] with all of them.
    pub fn finish<W>(self, weights: W) -> Result<W, Error> {
        if self.errors.is_empty() {
            Ok(weights)
        } else {
            Err(Error::Weights {
                path: self.path,
                errors: self.errors,
            })
        }
    }
}

/// The tensors of an index, each in its file.
fn indexed(path: &Path) -> Result<BTreeMap<String, (Arc<OnDisk>, TensorInfo)>, Error> {
    let text = std::fs::read(path).map_err(|e| wrong(path, e.to_string()))?;
    let index: Index = serde_json::from_slice(&text).map_err(|e| wrong(path, e.to_string()))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let (mut files, mut tensors) = (BTreeMap::new(), BTreeMap::new());
    for (name, file) in index.weight_map {
        // Weights come from others: an index reaches no file that is not beside it.
        let mut parts = Path::new(&file).components();
        if !matches!(
            (parts.next(), parts.next()),
            (Some(Component::Normal(_)), None)
        ) {
            let message = format!("`{name}` is in `{file}`, which is no file beside the index");
            return Err(wrong(path, message));
        }
        let (on_disk, metadata) = match files.get(&file) {
            Some(open) => open,
            None => files
                .entry(file.clone())
                .or_insert(head(&folder.join(&file))?),
        };
        let Some(info) = metadata.info(&name) else {
            return Err(wrong(
                path,
                format!("`{name}` is in `{file}`, which has no such tensor"),
            ));
        };
        tensors.insert(name, (on_disk.clone(), info.clone()));
    }
    Ok(tensors)
}

/// An open file and what its header says.
fn head(path: &Path) -> Result<(Arc<OnDisk>, Metadata), Error> {
    let (file, data, metadata) = header(path).map_err(|message| wrong(path, message))?;
    let on_disk = OnDisk {
        path: path.to_path_buf(),
        data,
        file: Mutex::new(file),
    };
    Ok((Arc::new(on_disk), metadata))
}

/// A file, where its data begin, and what its header says.
fn header(path: &Path) -> Result<(File, u64, Metadata), String> {
    let text = |e: io::Error| e.to_string();
    let mut file = File::open(path).map_err(text)?;
    let size = file.metadata().map_err(text)?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(text)?;
    let length = u64::from_le_bytes(length);
    let data = length.saturating_add(8);
    if data > size || length > HEADER {
        return Err(format!("a header of {length} bytes in a file of {size}"));
    }
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header).map_err(text)?;
    // its tensors lie without gaps, each of as many bytes as its elements
    let metadata: Metadata = serde_json::from_slice(&header).map_err(|e| e.to_string())?;
    let end = metadata.tensors().values().map(|t| t.data_offsets.1).max();
    let announced = data.saturating_add(end.unwrap_or(0) as u64);
    match announced.cmp(&size) {
        Ordering::Equal => Ok((file, data, metadata)),
        Ordering::Greater => Err(format!(
            "cut short: {size} bytes where {announced} are announced"
        )),
        Ordering::Less => Err(format!("{size} bytes where {announced} are announced")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A file of a tensor of this shape whose elements are their numbers.
    fn numbered(shape: &[usize]) -> StoredTensor {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"head").unwrap();
        let volume: usize = shape.iter().product();
        let bytes: Vec<u8> = (0..volume as i32).flat_map(i32::to_le_bytes).collect();
        file.write_all(&bytes).unwrap();
        let on_disk = OnDisk {
            path: PathBuf::from("numbered"),
            data: 4,
            file: Mutex::new(file),
        };
        StoredTensor {
            file: Arc::new(on_disk),
            dtype: DType::I32,
            shape: shape.to_vec(),
            start: 4,
        }
    }

    fn read(tensor: &StoredTensor, region: &[(usize, usize)]) -> Tensor {
        tensor.tensor(&Region(region.to_vec())).unwrap()
    }

    /// Element by element.
    fn wanted(shape: &[usize], region: &[(usize, usize)]) -> Tensor {
        let extents: Vec<usize> = region.iter().map(|(lo, hi)| hi - lo).collect();
        let element = |mut number: usize| {
            let (mut at, mut stride) = (0, 1);
            for (axis, &(lo, hi)) in region.iter().enumerate().rev() {
                at += (lo + number % (hi - lo)) * stride;
                (number, stride) = (number / (hi - lo), stride * shape[axis]);
            }
            at as i32
        };
        let volume = extents.iter().product();
        Tensor::new(extents, Data::I32((0..volume).map(element).collect())).unwrap()
    }

    #[test]
    fn boxes_are_read_as_they_stand() {
        for shape in [
            &[][..],
            &[5],
            &[3, 4],
            &[2, 1, 3],
            &[2, 3, 2, 2],
            &[0, 3],
            &[4, 0],
        ] {
            let tensor = numbered(shape);
            let ranges =
                |extent| (0..=extent).flat_map(move |lo| (lo..=extent).map(move |hi| (lo, hi)));
            let mut regions = vec![vec![]];
            for &extent in shape {
                let longer = |region: &Vec<_>| {
                    let region = region.clone();
                    ranges(extent).map(move |range| [&region[..], &[range]].concat())
                };
                regions = regions.iter().flat_map(longer).collect();
            }
            for region in regions {
                assert_eq!(
                    read(&tensor, &region),
                    wanted(shape, &region),
                    "{shape:?} {region:?}"
                );
            }
        }
    }

    #[test]
    fn what_is_far_apart_is_read_by_itself_and_what_is_near_together() {
        // a page and more between the runs of one, less between those of the other, more than is read at once in all
        for (rows, columns, region) in [
            (7, 3000, [(1, 6), (10, 13)]),
            (700, 900, [(0, 700), (5, 890)]),
            (3, 400_000, [(0, 3), (1, 400_000)]),
            (900, 700, [(10, 890), (0, 700)]),
        ] {
            let shape = [rows, columns];
            assert_eq!(read(&numbered(&shape), &region), wanted(&shape, &region));
        }
    }
}
