/// The answer to an entity's request: the model, and all around it.
public struct Reply<Model: Sendable>: Sendable {
    /// The decoded answer.
    public let model: Model
    /// The response it came in.
    public let response: HTTPResponse
    /// Code, message and data, when the domain wraps its answers.
    public let envelope: Envelope?
}
