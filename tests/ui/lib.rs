//! The messages that users read when they make a mistake: `cases/`, each with the expected message.
