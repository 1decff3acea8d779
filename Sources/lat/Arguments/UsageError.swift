/// A command line that cannot be used: one sentence that names the argument and the next step.
struct UsageError: Error, Hashable {
    let message: String

    init(_ message: String) { self.message = message }
}
