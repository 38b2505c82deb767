//! What the machine allows.

use super::Measurements;
use crate::Result;
use tallow_executor::kernels::Team;
use tallow_executor::kernels::machine::{self, Memory};
use tallow_executor::{CandleError, ExecutorError};

/// The limits, measured whenever asked.
pub(super) struct Limits<'a> {
    /// What is read; none where nothing is decoded.
    memory: Option<Memory>,
    team: &'a Team,
    bandwidth: Measurements,
    peak: Measurements,
}

impl<'a> Limits<'a> {
    /// Of these threads; nothing is taken yet.
    pub fn new(team: &'a Team) -> Self {
        Limits { memory: None, team, bandwidth: Measurements::default(), peak: Measurements::default() }
    }

    /// What has been measured: bytes per second, and multiply-adds per second.
    pub fn measured(self) -> (Measurements, Measurements) {
        (self.bandwidth, self.peak)
    }

    /// Takes the memory that is read, where something is decoded.
    pub fn take(&mut self, bytes: usize) -> Result<()> {
        let fault = |source: std::io::Error| {
            ExecutorError::Tensor(CandleError::Msg(format!(
                "cannot take {bytes} bytes to measure the memory bandwidth: {source}; end other programs, or leave \
                 decoding out (--decode 0)"
            )))
        };
        self.memory = Some(Memory::new(bytes, self.team).map_err(fault)?);
        Ok(())
    }

    /// Bytes per second.
    pub fn bytes(&mut self) -> f64 {
        let rate = self.memory.as_ref().map_or(f64::NAN, |memory| memory.read_rate(self.team));
        self.bandwidth.push(rate);
        rate
    }

    /// Multiply-adds per second.
    pub fn multiply_adds(&mut self) -> f64 {
        let rate = machine::multiply_add_rate(self.team);
        self.peak.push(rate);
        rate
    }
}
