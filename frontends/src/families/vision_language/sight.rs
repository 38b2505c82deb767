//! What a host needs to cut pictures into patches and to place what becomes of them in a text.

use super::tower::Tower;
use crate::families::{FamilyError, Settings};

/// Sizes of patches, and tokens that stand for pictures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Channels of a picture: red, green and blue.
    pub channels: u32,
    /// Pixels along a side of a patch.
    pub patch: u32,
    /// Frames of a patch; a still picture is repeated.
    pub frames: u32,
    /// Patches along a side of the square that becomes one row of the text.
    pub merge: u32,
    /// Rows of the text along a side of a window, where layers have windows.
    pub window: Option<u32>,
    /// The token in whose place a row of a picture stands.
    pub image: u32,
    /// The token in whose place a row of a video would stand.
    pub video: u32,
    /// The tokens before and after a picture.
    pub around: [u32; 2],
}

impl Sight {
    /// Reads the tokens; the tower has been read.
    pub(super) fn read(s: &Settings<'_>, tower: &Tower) -> Result<Sight, FamilyError> {
        let id = |key: &str, default: u32| Ok::<_, FamilyError>(s.token_id(key)?.unwrap_or(default));
        Ok(Sight {
            channels: tower.channels,
            patch: tower.patch,
            frames: tower.frames,
            merge: tower.merge,
            window: tower.window,
            image: id("image_token_id", 151_655)?,
            video: id("video_token_id", 151_656)?,
            around: [id("vision_start_token_id", 151_652)?, id("vision_end_token_id", 151_653)?],
        })
    }

    /// Pixels along a side of what becomes one row of the text.
    pub fn cell(&self) -> u32 {
        self.patch * self.merge
    }

    /// Values of a patch.
    pub fn patch_values(&self) -> usize {
        [self.channels, self.frames, self.patch, self.patch].iter().map(|&n| n as usize).product()
    }
}
