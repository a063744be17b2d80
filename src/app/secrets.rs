//! What seals secrets of tenants, and `agentling secrets rewrap`.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use clap::Subcommand;
use secrecy::SecretBox;
use secrecy::zeroize::Zeroizing;

use super::{StartError, Surroundings};
use crate::clock::SharedIds;
use crate::config::Config;
use crate::engine::secrets::Secrets;
use crate::seal::{Key, Keyring};
use crate::store::Store;

/// The id of the key that a server with a private database makes for itself.
const OWN_KEY: &str = "own";

/// What is done with secrets.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum SecretsCommand {
    /// Put every secret under the first of the keys that are set. Afterwards the others are not needed
    /// any more; broken off, it can be called again.
    Rewrap,
}

/// Runs the command and answers what to print.
pub(super) async fn run(
    config: &Config,
    store: &Store,
    command: SecretsCommand,
) -> Result<String, StartError> {
    let keeper = keeper(config, store, &Surroundings::default())?;
    match command {
        SecretsCommand::Rewrap => {
            let done = keeper.rewrap().await.map_err(StartError::Rewrap)?;
            match done.n_left {
                0 => Ok(format!("{} rewrapped\n", done.n_rewrapped)),
                n_left => Err(StartError::NotRewrapped { n_left }),
            }
        }
    }
}

/// What opens and seals secrets, by the settings.
pub(super) fn keeper(
    config: &Config,
    store: &Store,
    around: &Surroundings,
) -> Result<Secrets, StartError> {
    let (clock, ids) = (Arc::clone(&around.clock), Arc::clone(&around.ids));
    Ok(Secrets::new(store.clone(), keyring(config, &around.ids)?, clock, ids))
}

/// The operator's keys. A server with a private database keeps one of its own beside it where none are
/// set: whoever has the data directory has everything.
fn keyring(config: &Config, ids: &SharedIds) -> Result<Keyring, StartError> {
    let boxed = |(id, key): (&str, Key)| (id.to_owned(), SecretBox::new(Box::new(key)));
    if !config.secret_keys.is_empty() {
        return Ok(Keyring::new(config.secret_keys.bytes().map(boxed)));
    }
    let data_dir = &config.database.data_dir;
    if config.database.url.is_some() || !data_dir.is_dir() {
        return Ok(Keyring::default());
    }
    let key = own_key(&data_dir.join("secret.key"), ids)?;
    Ok(Keyring::new([boxed((OWN_KEY, key))]))
}

/// The key in a file, which is made first if need be.
fn own_key(path: &Path, ids: &SharedIds) -> Result<Key, StartError> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match made {
        Ok(mut file) => {
            let key = ids.secret()?;
            file.write_all(&key)?;
            file.sync_all()?;
            Ok(key)
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let mut bytes = Zeroizing::new(Vec::new());
            File::open(path)?.read_to_end(&mut bytes)?;
            let short = |_| std::io::Error::other("secret.key does not hold a key of 32 bytes");
            Ok(Key::try_from(bytes.as_slice()).map_err(short)?)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_its_own_is_made_once_and_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret.key");
        let ids = Surroundings::default().ids;
        let made = own_key(&path, &ids).unwrap();
        assert_eq!(own_key(&path, &ids).unwrap(), made);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, b"short").unwrap();
        assert!(own_key(&path, &ids).is_err());
    }
}
