import java.util.List;
import java.util.Map;

import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

/** A plug-in for clients' metrics (KIP-714) that takes all and keeps nothing. */
public final class Telemetry implements MetricsReporter, ClientTelemetry, ClientTelemetryReceiver {
    @Override public ClientTelemetryReceiver clientReceiver() {
        return this;
    }

    @Override public void exportMetrics(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
        payload.data();
    }

    @Override public void init(List<KafkaMetric> metrics) { }

    @Override public void metricChange(KafkaMetric metric) { }

    @Override public void metricRemoval(KafkaMetric metric) { }

    @Override public void configure(Map<String, ?> configs) { }

    @Override public void close() { }
}
