// The import rules of the house, default deny. test/architecture/imports.spec.ts feeds each rule a violation.
/** A package that two workspaces need in different versions lies in the node_modules of one of them. */
const OURS = '^(core|gateway|processors|connectors|infra|console|test)/(?!node_modules/)';
const SPEC = '[.](spec|fixture)[.]ts$';
const NODE_IO =
  '^(node:)?(fs|net|tls|http|https|http2|dgram|dns|child_process|worker_threads|cluster|sqlite|os|process)(/|$)';

/** A package that may import `core` and itself, and nothing else of ours. */
const onlyCore = (name) => ({
  name: `${name}-imports-core-alone`,
  severity: 'error',
  from: { path: `^${name}/` },
  to: { path: OURS, pathNot: [`^${name}/`, '^core/'] },
});

export default {
  forbidden: [
    {
      name: 'core-imports-nothing-of-ours',
      severity: 'error',
      from: { path: '^core/' },
      to: { path: OURS, pathNot: '^core/' },
    },
    {
      name: 'core-does-no-io',
      severity: 'error',
      from: { path: '^core/', pathNot: SPEC },
      to: { path: NODE_IO },
    },
    onlyCore('gateway'),
    onlyCore('processors'),
    onlyCore('connectors'),
    {
      name: 'an-adapter-imports-core-and-its-own-port',
      comment:
        'An adapter may share code with the other engines of its port, and the way its engine is reached and shared.',
      severity: 'error',
      from: { path: '^infra/adapters/([^/]+)/', pathNot: SPEC },
      to: {
        path: OURS,
        pathNot: [
          '^core/',
          '^infra/adapters/$1/',
          '^infra/adapters/(sqlite|redis|elasticsearch|group-commit)/',
        ],
      },
    },
    {
      name: 'a-sandbox-worker-loads-no-core',
      comment:
        'What runs beside hostile code starts in half the time without it, as it does again for each that is killed.',
      severity: 'error',
      from: {
        path: '^infra/adapters/sandbox/isolated-vm/(worker/|protocol[.]ts$)',
        pathNot: SPEC,
      },
      to: { path: '^core/', dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'a-thread-that-writes-loads-no-index',
      comment:
        'Each process has several, and starts them again and again; the index of core is nine tenths of what they would load.',
      severity: 'error',
      from: {
        path: '^infra/adapters/(event-log/sqlite/(append-worker|segment-writer|segment-file)|sqlite/(database|store-thread|wal-checkpoint[a-z-]*))[.]ts$',
      },
      to: { path: '^core/index[.]ts$', dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'what-every-role-loads-leaves-the-api-out',
      comment: 'A processor, and each command, starts in half the time and memory without it.',
      severity: 'error',
      from: {
        path: '^infra/runtime/(cli|main|config/[^/]+|commands/(serve|dev|processor)|process/[^/]+|server/(http|admin)-server|stages/thread)[.]ts$',
        pathNot: SPEC,
      },
      to: { path: '^(gateway|connectors|processors)/index[.]ts$', dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'only-runtime-wires',
      comment: 'infra/index.ts is how the tests reach the adapters and the runtime.',
      severity: 'error',
      from: { path: '^(core|gateway|processors|connectors|infra/adapters)/' },
      to: { path: '^infra/(runtime/|tools/|index[.]ts$)' },
    },
    {
      name: 'nothing-imports-tools',
      comment: 'A command that is not a role of the product is loaded by the command line, when it runs.',
      severity: 'error',
      from: { path: '^infra/', pathNot: '^infra/(tools/|runtime/cli[.]ts$)' },
      to: { path: '^infra/tools/' },
    },
    {
      name: 'the-command-line-loads-a-tool-when-it-runs',
      severity: 'error',
      from: { path: '^infra/runtime/cli[.]ts$' },
      to: { path: '^infra/tools/', dynamic: false, dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'console-imports-nothing-of-ours',
      comment: 'It is a client of the API and knows it by docs/reference/openapi.json alone.',
      severity: 'error',
      from: { path: '^console/' },
      to: { path: OURS, pathNot: '^console/' },
    },
    {
      name: 'nothing-imports-the-console',
      comment: 'Tests of its pages may read what the pages offer, such as samples of code.',
      severity: 'error',
      from: { path: OURS, pathNot: '^(console|test/console)/' },
      to: { path: '^console/' },
    },
    {
      name: 'nothing-imports-tests',
      severity: 'error',
      from: { path: OURS, pathNot: ['^test/', SPEC] },
      to: { path: ['^test/', SPEC] },
    },
    {
      name: 'specs-beside-the-code-import-no-room-of-tests',
      severity: 'error',
      from: { path: SPEC, pathNot: '^test/' },
      to: { path: '^test/' },
    },
    {
      name: 'packages-meet-at-their-index',
      severity: 'error',
      from: { path: '^(core|gateway|processors|connectors|infra|test)/' },
      to: {
        path: '^(core|gateway|processors|connectors|infra)/',
        pathNot: [
          '^$1/',
          '^(core|gateway|processors|connectors|infra)/index[.]ts$',
          // Parts with an entry of their own, for what starts often and needs no more.
          '^core/(primitives/index|log/record-layout)[.]ts$',
          '^gateway/server/create-server[.]ts$',
          '^processors/stages[.]ts$',
          '^connectors/egress/address-ranges[.]ts$',
          // A process that a test kills again and again loads one adapter in a fifth of the time that all of them take.
          '^infra/adapters/[^/]+/[^/]+/index[.]ts$',
        ],
      },
    },
    {
      name: 'no-cycles',
      comment:
        'A component of the console may contain itself by way of others, and load a part of itself later.',
      severity: 'error',
      from: { pathNot: '^console/' },
      to: { circular: true, dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'everything-resolves',
      comment: 'What is generated need not be there.',
      severity: 'error',
      from: {},
      to: { couldNotResolve: true, pathNot: '[.]gen[.]ts$' },
    },
    {
      name: 'dependencies-are-declared',
      comment: 'Test tools are declared once, at the top.',
      severity: 'error',
      from: { path: OURS, pathNot: [SPEC, '^test/'] },
      to: { dependencyTypes: ['npm-no-pkg', 'npm-unknown'] },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    preserveSymlinks: false,
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default', 'types'],
      extensions: ['.ts', '.tsx', '.mjs', '.js', '.json'],
    },
  },
};
