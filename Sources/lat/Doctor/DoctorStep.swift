import LATNetworking

/// One thing that was looked at, and what was found.
struct DoctorStep: Hashable, Sendable {
    enum Outcome: String, Hashable, Sendable {
        /// As it should be.
        case good
        /// It works, but something about it should be known.
        case warning
        /// The server answers, and says no.
        case refusal
        /// It does not go on from here.
        case failure
    }

    /// `name`, `tcp`, `tls`, `http` and so on.
    var name: String
    var outcome = Outcome.good
    /// What was found, in one line.
    var finding: String
    /// How long it took; `nil` when that says nothing.
    var duration: Duration?
    /// Further facts.
    var details: [String] = []
    /// What to try next, when it is not good.
    var advice: String?
}
