import Foundation
import LATNetworking
import LATTesting
import Testing

/// The samples of Documentation/Recipes.md do what they are meant to do, against a server of this process.
@Suite struct RecipeTests {
    @Test(.timeLimit(.minutes(1)), arguments: recipes)
    func recipeSucceeds(_ recipe: Recipe) async throws {
        let server = try RecipeServer()
        let folder = try TemporaryDirectory()
        var configuration = CentralRequestManager.Configuration()
        configuration.proxy = .direct
        configuration.cacheStorage = .memory
        try await recipe.run(CentralRequestManager(configuration: configuration), server.url, folder.path)
    }
}
