import LATFleet
import LATNetworking

// A process of a fleet, for tests that kill it. Called as: FleetProcess SOCKET PASSWORD URL
// It takes one of the fleet's places, and sends a request that the server never answers.
// Or: FleetProcess SOCKET PASSWORD ORIGIN KEY-COUNT, which reads through the cache until it is killed.
// Or: FleetProcess SOCKET PASSWORD URL COUNT told, which sends so many requests as fast as the server's told quota allows, and
// prints how many were refused.
let arguments = CommandLine.arguments
if arguments.count == 6, let count = Int(arguments[4]) {
    try await sendAsTold(socket: arguments[1], password: arguments[2], url: arguments[3], count)
}
if arguments.count == 5, let keyCount = Int(arguments[4]) {
    try await readUntilKilled(socket: arguments[1], password: arguments[2], origin: arguments[3], keyCount: keyCount)
}
guard arguments.count == 4 else { fatalError("FleetProcess SOCKET PASSWORD URL") }
var settings = FleetConfiguration()
settings.address = .unixSocket(path: arguments[1])
settings.password = arguments[2]
settings.lookUpBudget = .seconds(30)
let fleet = try Fleet(settings)
try await fleet.connect(within: .seconds(30))
var configuration = CentralRequestManager.Configuration()
configuration.fleet = fleet
configuration.limits.maxConcurrentRequests = 1
configuration.timeout = nil
let manager = try CentralRequestManager(configuration: configuration)
_ = try await manager.startRequest("GET", arguments[3])
