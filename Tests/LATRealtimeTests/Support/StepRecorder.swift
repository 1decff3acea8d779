import HTTPCore
import LATNetworking
import TestSupport

/// Records the steps of all calls.
final class StepRecorder: RequestAccessory {
    let events = Log<String>()

    func willStart(_ call: ObservedCall) { events.append("willStart") }
    func didStart(_ call: ObservedCall) { events.append("didStart") }
    func willFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) { events.append("willFinish") }
    func didFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) { events.append("didFinish") }
}
