import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { STAGE_NAMES } from '@tributary/processors';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import {
  CHART,
  type KubernetesObject,
  lint,
  openSchemas,
  podsOf,
  refusalOf,
  render,
  type Values,
} from './kubernetes/chart.ts';
import { findKubernetes } from './kubernetes/installation.ts';
import { settings } from './kubernetes/product-settings.ts';

const EXAMPLES = readdirSync(join(CHART, 'examples')).map((file) => file.replace(/[.]yaml$/, ''));

const installation = findKubernetes(process.env);
if (installation === undefined)
  console.warn(
    'Helm and the schemas of Kubernetes are SKIPPED: `bash .ci/kubernetes` installs them, with Go',
  );
const helm = installation?.helm ?? '';

describe.skipIf(installation === undefined)('the chart in Helm', () => {
  const validate = installation === undefined ? () => ['no schemas'] : openSchemas(installation);
  const all =
    installation === undefined ? [] : EXAMPLES.map((file) => ({ file, objects: render(helm, { file }) }));

  it.each(EXAMPLES)('is without fault to helm lint: %s', (file) => {
    expect(lint(helm, { file })).toBe('');
  });

  it('fits the schemas of Kubernetes, KEDA and the Prometheus operator', () => {
    const kinds = new Set<string>();
    for (const { file, objects } of all)
      for (const object of objects) {
        kinds.add(object.kind);
        expect(validate(object), `${file}: ${object.kind} ${object.metadata.name}`).toEqual([]);
      }
    expect([...kinds].sort()).toEqual(
      [
        ...[
          'Deployment',
          'HorizontalPodAutoscaler',
          'Ingress',
          'Job',
          'NetworkPolicy',
          'PodDisruptionBudget',
        ],
        ...['PodMonitor', 'PrometheusRule', 'ScaledObject', 'Service', 'TriggerAuthentication'],
      ].sort(),
    );
  });

  it('is held to them: a wrong field, a missing one and a wrong type are found', () => {
    const deployment = all[0]?.objects.find(({ kind }) => kind === 'Deployment');
    const spec = deployment?.spec as KubernetesObject;
    expect(validate({ ...deployment, spec: { ...spec, replica: 1 } })[0]).toContain('additional properties');
    expect(validate({ ...deployment, spec: { replicas: 1 } }).join()).toContain('selector');
    expect(validate({ ...deployment, spec: { ...spec, replicas: '1' } })[0]).toContain('must be integer');
    const scaled = {
      apiVersion: 'keda.sh/v1alpha1',
      kind: 'ScaledObject',
      metadata: {},
      spec: { trigger: [] },
    };
    expect(validate(scaled).join()).toContain('triggers');
  });

  it('gives every pod the settings of the restricted Pod Security Standard, and a root that is read-only', () => {
    for (const pods of all.flatMap(({ objects }) =>
      objects.map(podsOf).filter((each) => each !== undefined),
    )) {
      expect(pods.spec).toMatchObject({
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
      });
      for (const { securityContext, volumeMounts } of pods.spec.containers) {
        expect(securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        });
        const volumes = pods.spec.volumes.map(({ name }) => name);
        expect(volumeMounts.map(({ name }) => name)).toEqual(volumes);
      }
    }
  });

  it('sets nothing that the product refuses: the environment of each container starts it', async () => {
    const { names, secrets } = await settings();
    const known = new Set([...names, ...secrets.map((name) => `${name}_FILE`)]);
    for (const { objects } of all)
      for (const pods of objects.map(podsOf).filter((each) => each !== undefined))
        for (const { env } of pods.spec.containers) {
          const set = env.map(({ name }) => name);
          expect(new Set(set).size).toBe(set.length);
          expect(set.filter((name) => !known.has(name))).toEqual([]);
          expect(env.filter(({ value }) => typeof value !== 'string')).toEqual([]);
        }
  });

  it('kills no process before its drain and its grace are over', () => {
    const seconds = (text = '') => Number(/^(\d+)s$/.exec(text)?.[1]);
    for (const object of all.flatMap(({ objects }) => objects)) {
      const pods = object.kind === 'Deployment' ? podsOf(object) : undefined;
      if (pods === undefined) continue;
      const [{ env } = { env: [] }] = pods.spec.containers;
      const value = (wanted: string) => env.find(({ name }) => name === wanted)?.value;
      const needed = seconds(value('TRIBUTARY_DRAIN')) + seconds(value('TRIBUTARY_SHUTDOWN_GRACE'));
      expect(pods.spec.terminationGracePeriodSeconds).toBeGreaterThan(needed);
    }
  });

  it('has each stage in one Deployment, and each Deployment in one budget', () => {
    for (const { file, objects } of all) {
      const deployments = objects.filter(({ kind }) => kind === 'Deployment');
      const stages = deployments.flatMap((each) => {
        const [{ args } = { args: [] }] = podsOf(each)?.spec.containers ?? [];
        if (args[0] !== 'processor') return [];
        return args[2]?.split(',') ?? [...STAGE_NAMES];
      });
      expect(stages.sort(), file).toEqual([...STAGE_NAMES].sort());
      for (const deployment of deployments) {
        const labels = podsOf(deployment)?.labels ?? {};
        const budgets = objects.filter(
          (each) => each.kind === 'PodDisruptionBudget' && selects(each.spec as unknown as Selecting, labels),
        );
        expect(budgets.map(({ metadata }) => metadata.name)).toEqual([deployment.metadata.name]);
        expect(selects(deployment.spec as unknown as Selecting, labels)).toBe(true);
      }
      // The Job's pod is neither the Service's nor a Deployment's.
      const job = podsOf(objects.find(({ kind }) => kind === 'Job') ?? EMPTY)?.labels;
      for (const deployment of job === undefined ? [] : deployments)
        expect(selects(deployment.spec as unknown as Selecting, job ?? {})).toBe(false);
    }
  });

  it('scales a group by the lag of its stages, never beyond the partitions', () => {
    const objects = render(helm, { file: 'split' });
    const scaled = objects.filter(({ kind }) => kind === 'ScaledObject');
    expect(scaled.map(({ metadata }) => metadata.name)).toEqual([
      'shop-tributary-events',
      'shop-tributary-deliveries',
    ]);
    const triggers = scaled.map(({ spec }) => (spec as unknown as { readonly triggers: Trigger[] }).triggers);
    const watched = triggers.map((each) =>
      each
        .map(({ metadata }) => `${metadata.consumerGroup} ${metadata.topic}`)
        .filter((text) => !text.startsWith('undefined')),
    );
    expect(watched[0]).toEqual([
      'tributary.validate tributary.events.production',
      'tributary.validate tributary.events.development',
      'tributary.validate tributary.orders',
      'tributary.validate.slow tributary.events.received.slow',
      'tributary.count tributary.events.accepted',
      'tributary.count tributary.events.rejected',
      'tributary.live tributary.events.accepted',
      'tributary.live tributary.events.rejected',
      'tributary.profile tributary.events.accepted',
    ]);
    expect(triggers[1]?.at(-1)?.metadata.query).toBe(
      'max(tributary_stage_lag_seconds{stage=~"route|route[.]slow|deliver|deliver[.]slow|deliver[.]retry",topic!~".*retry.*"})',
    );
    for (const { spec } of scaled) expect(spec).toMatchObject({ minReplicaCount: 2, maxReplicaCount: 24 });
    expect(objects.find(({ kind }) => kind === 'TriggerAuthentication')?.spec).toEqual({
      env: [{ parameter: 'username', name: 'KAFKA_SASL_USERNAME', containerName: 'stages' }],
      secretTargetRef: [{ parameter: 'password', name: 'kafka-user', key: 'password' }],
      configMapTargetRef: [{ parameter: 'ca', name: 'kafka-ca', key: 'ca.crt' }],
    });
  });

  it('hands the rules of alerts.yaml on as they are', () => {
    const rule = render(helm, { file: 'split' }).find(({ kind }) => kind === 'PrometheusRule');
    expect(rule?.spec).toEqual(parse(readFileSync(join(CHART, '../../alerts.yaml'), 'utf8')));
  });

  const group = (stages: unknown, more: object = {}) => ({ name: 'all', stages, ...more });
  const refused: readonly (readonly [string, Values['set'], string])[] = [
    [
      'a secret among the settings',
      { 'config.REDIS_URL': 'redis://redis' },
      'name that in secretFiles.REDIS_URL',
    ],
    ['a file among them', { 'config.KAFKA_TLS_CA_FILE': '/ca.crt' }, 'in secretFiles.KAFKA_TLS_CA'],
    [
      'a setting that the chart sets itself',
      { 'config.TRIBUTARY_DRAIN': '5s' },
      'by other values: gateway.drainSeconds',
    ],
    ['an installation without Redis', { 'secretFiles.REDIS_URL': null }, 'REDIS_URL'],
    ['a misspelt value', { 'gateway.replica': 1 }, 'replica'],
    ['a number as a setting', { 'config.TRIBUTARY_PARTITIONS': 12 }, 'string'],
    ['a stage in no group', { stageGroups: [group(['validate'])] }, 'is in no group'],
    [
      'a stage in two groups',
      { stageGroups: [group('all'), { name: 'b', stages: ['live'] }] },
      'in the groups',
    ],
    ['a stage that is none', { stageGroups: [group(['validat'])] }, 'stageGroups'],
    ['two groups of one name', { stageGroups: [group('all'), group(['live'])] }, 'two groups are called'],
    [
      'more processes than partitions',
      { stageGroups: [group('all', { autoscaling: { enabled: true, maxReplicas: 13 } })] },
      'there are 12 partitions',
    ],
    [
      'a scaled group without a trigger',
      { stageGroups: [group('all', { autoscaling: { enabled: true, kafka: { enabled: false } } })] },
      'has no trigger',
    ],
    ['an Ingress without a host', { 'gateway.ingress.enabled': true }, 'hosts'],
  ];
  it.each(refused)('refuses %s', (_, set, message) => {
    expect(refusalOf(helm, { ...(set && { set }) })).toContain(message);
  });
});

interface Selecting {
  readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
}

interface Trigger {
  readonly metadata: Readonly<Record<string, string>>;
}

const EMPTY: KubernetesObject = { kind: '', metadata: { name: '', labels: {} } };

function selects({ selector }: Selecting, labels: Readonly<Record<string, string>>): boolean {
  return Object.entries(selector.matchLabels).every(([name, value]) => labels[name] === value);
}
