/// Whether a request is sealed, and by which of the manager's sealers.
public enum SealingPolicy: Hashable, Sendable {
    /// The choice of the table's row, else that of the manager. The default.
    case automatic
    /// Neither the request nor its response is sealed, whatever the rows and the manager say.
    case unsealed
    /// Sealed by the manager's sealer of this name.
    case sealed(by: String)
}

/// Which authenticator puts its token on a request.
public enum AuthenticatorPolicy: Hashable, Sendable {
    /// The row's, else the manager's.
    case automatic
    /// None.
    case off
    /// The manager's authenticator of this name.
    case named(String)
}
