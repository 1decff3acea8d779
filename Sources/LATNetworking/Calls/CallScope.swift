/// What a task is in the middle of, so that requests it makes there do not wait for themselves.
enum CallScope {
    /// The rooms of authentication whose token is being renewed by this task.
    @TaskLocal static var renewing: Set<ObjectIdentifier> = []
    /// The barriers that this task holds closed.
    @TaskLocal static var closing: Set<ObjectIdentifier> = []
}
