public import HTTPCore

extension HTTPRequest {
    /// The observers of this request alone, called after the manager's. Default none.
    ///
    /// ```swift
    /// request.accessories = [RequestLog(.curl)]          // logs this call only
    /// ```
    ///
    /// Two requests with accessories are equal only if one is a copy of the other.
    public var accessories: [any RequestAccessory] {
        get { observers?.list.compactMap { $0 as? any RequestAccessory } ?? [] }
        set { observers = newValue.isEmpty ? nil : RequestObservers(newValue) }
    }

    /// Adds closures that are called just before the call starts, and after its caller has got the result.
    ///
    /// ```swift
    /// request.observe(willStart: { _ in spinner.show() }, didFinish: { _, result in spinner.dismiss() })
    /// ```
    public mutating func observe(
        willStart: @escaping @Sendable (_ call: ObservedCall) -> Void = { _ in },
        didFinish: @escaping @Sendable (_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) -> Void = {
            _, _ in
        }
    ) {
        accessories.append(ClosureAccessory(start: willStart, end: didFinish))
    }
}

struct ClosureAccessory: RequestAccessory {
    let start: @Sendable (ObservedCall) -> Void
    let end: @Sendable (ObservedCall, Result<HTTPResponse, NetworkError>) -> Void

    func willStart(_ call: ObservedCall) { start(call) }
    func didFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) { end(call, result) }
}
