//! One token after another.

use super::{Rows, Session};
use crate::error::Result;
use crate::interpreter::Frame;
use crate::native::Order;
use crate::program::LOGITS;
use crate::value::with_slice;
use tallow_ir::{PAST, POS, SEQUENCE};

impl Session {
    /// The logits after one more token, `[vocabulary]`, as [`Session::forward`] gives them. Where all of the graph runs
    /// natively, nothing is allocated once the first such call has run, but for a cache that must grow. On an error the
    /// session is as it was.
    pub fn decode(&mut self, id: u32) -> Result<&[f32]> {
        self.check_room(1)?;
        if self.decode_natively(id)? {
            return Ok(self.runner.result());
        }
        let logits = self.forward(&[id], Rows::Last)?;
        self.logits.clear();
        with_slice(&logits, |values| self.logits.extend_from_slice(values))?;
        Ok(&self.logits)
    }

    /// Whether the token has run on the native runner alone, which then holds the logits.
    fn decode_natively(&mut self, id: u32) -> Result<bool> {
        let program = self.program.clone();
        let (loaded, variant) = program.for_call(Rows::Last, 1);
        let plan = &loaded.plan;
        let known = |name: &str| name == POS || name == "input_ids";
        let logits = plan.outputs.iter().find(|(name, _)| name == LOGITS);
        let Some((_, output)) = logits.filter(|_| self.fixed.is_empty() && program.runs_whole()) else {
            return Ok(false);
        };
        if !plan.inputs.iter().all(|i| known(&i.name)) || program.one_token_inputs().len() > 1 {
            return Ok(false);
        }
        match self.sizes.get_mut(PAST) {
            Some(past) => *past = self.past as i64,
            None => {
                self.sizes.insert(PAST.into(), self.past as i64);
                self.sizes.insert(SEQUENCE.into(), 1);
            }
        }
        let (past, random) = (self.past, self.random);
        let order = Order { program: &program, loaded, variant, bindings: &self.sizes, tokens: 1, past };
        let host = program.host.as_deref();
        let mut frame = Frame { caches: &mut self.caches, tokens: 1, length: past + 1, random: &mut self.random, host };
        let done = self.runner.decode(&order, id, output.0, &mut frame);
        match done {
            Ok(true) if self.caches.is_empty() => {}
            Ok(true) => self.past += 1,
            Ok(false) => {}
            Err(_) => {
                self.caches.iter_mut().for_each(|c| c.truncate(past));
                self.random = random;
            }
        }
        done
    }
}
