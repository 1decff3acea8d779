internal import LATConventions
public import LATNetworking
internal import ServiceContextModule
internal import Synchronization
public import Tracing

/// Makes a client span of each attempt and hop of a manager's calls, under the span of the task that makes the call, and sends
/// its context with the request.
///
/// ```swift
/// configuration.accessories = [CallTracer()]
/// ```
///
/// The parent is `ServiceContext.current`, and where a request is sent in a task of its own, as those of a download, the one
/// at the start of the call. A repetition and the hop of a redirect are spans of their own beside the first, with
/// `http.request.resend_count`; a response from the cache has none. Names and attributes are those of OpenTelemetry's
/// conventions for HTTP clients 1.44. `url.full` is without user information and secret parameters. A span ends with the
/// response; a streamed body is read after it.
///
/// The tracer chooses the fields that carry the context, such as `traceparent`. They take the place of those of
/// ``TraceParent``.
public struct CallTracer: RequestAccessory {
    private let given: (any Tracer)?
    private let parents = Parents()

    /// Makes an observer.
    ///
    /// - Parameter tracer: Default `nil`: that of `InstrumentationSystem` at the time of each request, and its instruments,
    ///   which add their fields too.
    public init(_ tracer: (any Tracer)? = nil) { given = tracer }

    /// Keeps the context of the task.
    public func willStart(_ call: ObservedCall) {
        guard let context = ServiceContext.current else { return }
        parents.contexts.withLock { $0[call.id] = context }
    }

    /// Forgets the context of the call.
    public func didFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) {
        parents.contexts.withLock { $0[call.id] = nil }
    }

    /// Starts the span of a request, and adds its context to the headers.
    public func willSend(_ request: inout HTTPRequest, of call: ObservedCall, resends: Int) -> AttemptEnd? {
        let tracer = given ?? InstrumentationSystem.tracer
        let parent = ServiceContext.current ?? parents.contexts.withLock { $0[call.id] } ?? .topLevel
        let span = tracer.startAnySpan(Conventions.spanName(request, call.row), context: parent, ofKind: .client)
        let instrument: any Instrument = given ?? InstrumentationSystem.instrument
        instrument.inject(span.context, into: &request.headers, using: FieldInjector())
        guard span.isRecording else {
            return { _ in span.end() }
        }
        Self.set(Conventions.attributes(of: request, in: call, resends: resends), on: span)
        return { result in
            let attributes = Conventions.attributes(of: result)
            Self.set(attributes, on: span)
            if attributes.contains(where: { $0.name == "error.type" }) {
                var message: String?
                if case .failure(let error) = result { message = Conventions.errorType(error) }
                span.setStatus(SpanStatus(code: .error, message: message))
            }
            span.end()
        }
    }

    private static func set(_ attributes: [Conventions.Attribute], on span: any Span) {
        span.updateAttributes { all in
            for (name, value) in attributes {
                switch value {
                case .text(let text): all.set(name, value: .string(text))
                case .number(let number): all.set(name, value: .int64(Int64(number)))
                }
            }
        }
    }
}

/// The contexts of the calls that run.
private final class Parents: Sendable {
    let contexts = Mutex<[UInt64: ServiceContext]>([:])
}

private struct FieldInjector: Injector {
    func inject(_ value: String, forKey key: String, into headers: inout HTTPHeaders) { headers[key] = value }
}
