//! Undoing: every change of a machine is recorded before, and put back whichever process is killed.
//!
//! Three customers, and the same answers for all of them:
//!
//! | | a session (role `host`) | the daemon | settings that stay (role `settings`) |
//! |---|---|---|---|
//! | noted in | `session`: a journal of its process | the same; endpoints that it made in a file beside it | `applied`: one journal of the network namespace |
//! | put back at | its end | its end | a rollback, or a deadline at which nobody has confirmed |
//! | by whom | itself; killed: the `guardian` | the same; endpoints by the next daemon, or `--restore` | the role; the `reverter` |
//! | and if that is killed too | the next session | the next daemon, or `--restore` | the next rollback |
//!
//! **Recorded before.** A `change` is a setting, its state before, its target, and every state that it may have in
//! between. It is on the disk before the first system call that changes anything: written to a new file, synced,
//! renamed, and the directory synced (`directory`, which is the only writer). So after SIGKILL or a loss of power the
//! journal has either everything that may have changed, or nothing has. Journal entries without a matching change are
//! harmless: a setting in its state before stays as it is.
//!
//! **Which journal counts.** It names the start of the machine and the network namespace. After a restart the kernel's
//! settings are the system's again, and the journal is forgotten; only files, which outlive that, are still put back.
//! A session's journal names its process too, by its number and when it began: nobody else touches it while that lives.
//!
//! **Who puts back.** Detached processes (`detached`), which lead a session, with signals blocked. The guardian holds one
//! end of a socket and works as soon as the other is gone; it holds the lock too, so that the next session begins when
//! everything is as before. The reverter reads the journal, and waits for its deadline.
//!
//! **When somebody else has changed it meanwhile.** What is in none of the noted states is somebody else's
//! and stays. A session gives it up; settings that stay keep it in the journal, for a rollback by force.
//!
//! **One at a time.** A lock by flock(2) on a file in the same directory (`lock`), which belongs to its user alone, is
//! opened without following links, and is used by its descriptor (`directory`).
//!
//! Every system call that changes something is followed by `steps::changed()`, at which tests kill the process:
//! whichever it is, everything returns byte for byte. A new kind of setting implements `kind::Kind`, and this is
//! enough for all three.

pub mod applied;
pub mod change;
pub mod detached;
pub mod directory;
pub mod error;
pub mod guardian;
pub mod kind;
pub mod lock;
pub mod places;
pub mod reverter;
pub mod session;
pub mod steps;
pub mod sysctl;
