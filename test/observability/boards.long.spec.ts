import { METRICS, type MetricDescription } from '@tributary/core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../helpers/client.ts';
import { hasPrometheus, Prometheus } from '../helpers/prometheus.ts';
import { startTributary, type Tributary } from '../helpers/tributary.ts';
import { emptyPanels, QUERIES } from './empty-panels.ts';
import { quickRules } from './quick-rules.ts';
import { Traffic } from './traffic.ts';

describe('the boards', () => {
  it.each(QUERIES)('$board, $title: asks for metrics that there are', ({ expr }) => {
    const metrics: Readonly<Record<string, MetricDescription>> = METRICS;
    for (const [name] of expr.matchAll(/tributary_[a-z_]+/g)) {
      const metric = metrics[name.replace(/_(bucket|count|sum)$/, '')] ?? metrics[name];
      expect(metric, name).toBeDefined();
      expect(/_bucket$/.test(name) && metric?.kind !== 'histogram', name).toBe(false);
    }
  });
});

/** Metrics that only an installation on engines has. */
const ON_ENGINES = /tributary_(engine|broker_disk)_/;

/** Without the alert on the disk: other programs fill the one of the machine that the tests run on. */
function ofTributary(alerts: readonly string[]): readonly string[] {
  return alerts.filter((alert) => alert !== 'TributaryDiskFillsUp');
}

describe.skipIf(!hasPrometheus())('a real Prometheus that scrapes an installation on one machine', () => {
  let tributary: Tributary;
  let traffic: Traffic;
  let prometheus: Prometheus;
  beforeAll(async () => {
    tributary = await startTributary({
      env: {
        TRIBUTARY_EGRESS_ALLOW: '127.0.0.1/32',
        TRIBUTARY_RETRY_SCHEDULE: '1s,2s',
        TRIBUTARY_RETRY_EXPIRY: '1h',
        TRIBUTARY_ALERT_AFTER: '1s',
        TRIBUTARY_EVENT_RATE: '500',
      },
    });
    traffic = new Traffic(tributary);
    await traffic.start();
    prometheus = await Prometheus.start([tributary.adminUrl], await quickRules());
  });
  afterAll(async () => {
    await prometheus?.stop();
    await traffic?.close();
    await tributary?.remove();
  });

  it('fires no alert while nothing is wrong', async () => {
    await eventually(
      () => prometheus.query('count_over_time(tributary_build_info[1m]) >= 12'),
      (found) => found.length > 0,
    );
    expect(ofTributary(await prometheus.firing())).toEqual([]);
    expect(await prometheus.query('sum(rate(tributary_events_received_total[10s])) > 1')).toHaveLength(1);
  });

  it('fires the alerts of the present faults, and no others', async () => {
    const from = Date.now();
    const fired = () => prometheus.firing(Math.ceil((Date.now() - from) / 1_000) + 1);
    traffic.set({ destinations: true, events: true, flood: true });
    await traffic.poison();
    const expected = [
      'TributaryDeliveriesDead',
      'TributaryDestinationDown',
      'TributaryNoticeUndeliverable',
      'TributaryRecordsDeadLettered',
      'TributaryWorkspaceFloods',
    ];
    await eventually(fired, (firing) => expected.every((alert) => firing.includes(alert)));
    expect(ofTributary(await fired())).toEqual(expected);
  });

  it('has data for every query of every panel', async () => {
    traffic.set({ destinations: true, events: true, flood: true, requests: true });
    await eventually(
      () => emptyPanels(prometheus, ON_ENGINES),
      (left) => left.length === 0,
    );
  });

  it('fires that there is no gateway and no processor, and that no lag is known, once the process is gone', async () => {
    await traffic.close();
    await tributary.kill();
    const expected = ['TributaryLagUnknown', 'TributaryNoGateway', 'TributaryNoProcessor'];
    await eventually(
      () => prometheus.firing(),
      (firing) => expected.every((alert) => firing.includes(alert)),
    );
  });
});
