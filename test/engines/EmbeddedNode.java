import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.PluginsLoader;

/** One Elasticsearch node in this process: the home folder is its only argument. It ends in order on SIGTERM. */
public final class EmbeddedNode {
    public static void main(String[] arguments) throws Exception {
        LogConfigurator.registerErrorListener();
        LogConfigurator.configureESLogging();
        Path home = Path.of(arguments[0]);
        Settings settings = Settings.builder().put("path.home", home).build();
        Environment environment =
            InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), home.resolve("config"), () -> "tributary");
        LogConfigurator.setNodeName("tributary");
        LogConfigurator.configure(environment, true);
        PluginsLoader plugins = PluginsLoader.createPluginsLoader(
            PluginsLoader.loadModulesBundles(environment.modulesDir(), false), Set.of(), Map.of(),
            false); // nothing is exported to modules by name: all of it is on the class path
        Node node = new Node(environment, plugins);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> close(node)));
        node.start();
        Thread.currentThread().join(); // the node's own threads would not keep the process alive
    }

    private static void close(Node node) {
        try {
            node.prepareForClose();
            node.close();
        } catch (Exception fault) {
            fault.printStackTrace();
        }
    }
}
