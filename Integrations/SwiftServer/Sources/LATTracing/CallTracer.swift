internal import LATConventions
public import LATNetworking
internal import ServiceContextModule
public import Tracing

/// Makes a client span of each attempt and hop of a manager's calls, under the span of the task that makes the call, and sends
/// its context with the request.
///
/// ```swift
/// configuration.accessories = [CallTracer()]
/// ```
///
/// The parent is `ServiceContext.current`. A repetition and the hop of a redirect are spans of their own beside the first,
/// with `http.request.resend_count`; a response from the cache has none. Names and attributes are those of OpenTelemetry's
/// conventions for HTTP clients 1.44. `url.full` is without user information and secret parameters. A span ends with the
/// response; a streamed body is read after it.
///
/// The tracer chooses the fields that carry the context, such as `traceparent`. They take the place of those of
/// ``TraceParent``.
public struct CallTracer: RequestAccessory {
    private let given: (any Tracer)?

    /// Makes an observer.
    ///
    /// - Parameter tracer: Default `nil`: that of `InstrumentationSystem` at the time of each request, and its instruments,
    ///   which add their fields too.
    public init(_ tracer: (any Tracer)? = nil) { given = tracer }

    /// Starts the span of a request, and adds its context to the headers.
    public func willSend(_ request: inout HTTPRequest, of call: ObservedCall, resends: Int) -> AttemptEnd? {
        let tracer = given ?? InstrumentationSystem.tracer
        let span = tracer.startAnySpan(
            Conventions.spanName(request, call.row), context: ServiceContext.current ?? .topLevel, ofKind: .client)
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

private struct FieldInjector: Injector {
    func inject(_ value: String, forKey key: String, into headers: inout HTTPHeaders) { headers[key] = value }
}
