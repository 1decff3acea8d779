/// Whether a request is sealed, and by which of the manager's sealers.
public enum SealingPolicy: Hashable, Sendable {
    /// As the row of the table says, else the manager. The default.
    case automatic
    /// The request and its reply go as they are, whatever the rows and the manager say.
    case unsealed
    /// By the manager's sealer of this name.
    case sealed(by: String)
}
