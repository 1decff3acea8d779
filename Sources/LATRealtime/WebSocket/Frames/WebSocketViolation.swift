/// A violation of the protocol by the server, with its close code (RFC 6455 §7.4.1).
struct WebSocketViolation: Error, Equatable {
    let code: UInt16
    let message: String

    static func protocolError(_ message: String) -> WebSocketViolation {
        WebSocketViolation(code: 1002, message: message)
    }

    static func badText(_ message: String) -> WebSocketViolation { WebSocketViolation(code: 1007, message: message) }

    static func tooLarge(_ message: String) -> WebSocketViolation { WebSocketViolation(code: 1009, message: message) }
}
