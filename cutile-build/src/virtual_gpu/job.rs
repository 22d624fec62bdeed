//! Recorded jobs and placeholders: what the recording assembler writes.

use std::fmt;

const JOB_MAGIC: &[u8] = b"cutile-rehearsal-job 1";

/// A call to tileiras, as the recording assembler stored it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedJob {
    /// Every argument in its order, except `-o OUT` and the input file.
    pub args: Vec<String>,
    /// The input file: Tile IR bytecode.
    pub bytecode: Vec<u8>,
}

impl RecordedJob {
    /// Reads a `.job` file. The layout is in the [module's documentation](super).
    ///
    /// # Errors
    /// Where the file is none, is cut short or goes on after its end.
    pub fn parse(job: &[u8]) -> Result<Self, MalformedJob> {
        let mut reader = Reader(job);
        if reader.line()? != JOB_MAGIC {
            return Err(MalformedJob("does not start with \"cutile-rehearsal-job 1\""));
        }
        let count = reader.number()?;
        let mut args = Vec::new();
        for _ in 0..count {
            args.push(reader.option()?);
        }
        let length = reader.number()?;
        if reader.0.len() != length {
            return Err(MalformedJob("does not hold as much bytecode as it says"));
        }
        Ok(Self { args, bytecode: reader.0.to_vec() })
    }

    fn value_of(&self, option: &str) -> Option<&str> {
        let at = self.args.iter().position(|arg| arg == option)?;
        self.args.get(at + 1).map(String::as_str)
    }

    fn has(&self, flag: &str) -> bool {
        self.args.iter().any(|arg| arg == flag)
    }

    /// The target, `sm_90`; the recording assembler stores no job without one.
    #[must_use]
    pub fn gpu_name(&self) -> Option<&str> {
        self.value_of("--gpu-name")
    }

    /// The optimization level; the recording assembler stores no job without one.
    #[must_use]
    pub fn opt_level(&self) -> Option<u8> {
        self.value_of("--opt-level")?.parse().ok()
    }

    /// `--device-debug`: full debug information, no optimization.
    #[must_use]
    pub fn device_debug(&self) -> bool {
        self.has("--device-debug")
    }

    /// `--lineinfo`
    #[must_use]
    pub fn lineinfo(&self) -> bool {
        self.has("--lineinfo")
    }

    /// `--sanitize=memcheck`
    #[must_use]
    pub fn sanitize_memcheck(&self) -> bool {
        self.has("--sanitize=memcheck")
    }

    /// The flags as an entry's header and key hold them.
    #[must_use]
    pub fn flags(&self) -> u8 {
        u8::from(self.device_debug())
            | u8::from(self.lineinfo()) << 1
            | u8::from(self.sanitize_memcheck()) << 2
    }

    /// The tile libraries that are linked: the values of `-l`.
    #[must_use]
    pub fn tile_libraries(&self) -> Vec<&str> {
        let flags = self.args.iter().zip(self.args.iter().skip(1));
        flags.filter(|(flag, _)| *flag == "-l").map(|(_, library)| library.as_str()).collect()
    }
}

/// Why a file is not a recorded job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MalformedJob(&'static str);

impl fmt::Display for MalformedJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a job of the recording assembler of this version: the file {}", self.0)
    }
}

impl std::error::Error for MalformedJob {}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], MalformedJob> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(MalformedJob("is cut short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn until(&mut self, end: u8) -> Result<&'a [u8], MalformedJob> {
        let length = self.0.iter().position(|byte| *byte == end);
        let taken = self.take(length.ok_or(MalformedJob("is cut short"))?)?;
        self.take(1)?;
        Ok(taken)
    }

    fn line(&mut self) -> Result<&'a [u8], MalformedJob> {
        self.until(b'\n')
    }

    fn decimal(digits: &[u8]) -> Result<usize, MalformedJob> {
        let is_decimal = digits.iter().all(u8::is_ascii_digit);
        let digits = std::str::from_utf8(digits).ok().filter(|_| is_decimal);
        let number = digits.and_then(|digits| digits.parse().ok());
        number.ok_or(MalformedJob("has no number where one is expected"))
    }

    fn number(&mut self) -> Result<usize, MalformedJob> {
        Self::decimal(self.line()?)
    }

    fn option(&mut self) -> Result<String, MalformedJob> {
        let length = Self::decimal(self.until(b' ')?)?;
        let option = self.take(length)?.to_vec();
        if self.take(1)? != b"\n" {
            return Err(MalformedJob("has an option that is longer than it says"));
        }
        String::from_utf8(option).map_err(|_| MalformedJob("has an option that is not UTF-8"))
    }
}
