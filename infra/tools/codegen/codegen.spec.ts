import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import ts from 'typescript';
import { afterAll, describe, expect, it } from 'vitest';
import { generateClient, type Language, type Sdk } from './codegen.ts';
import { hostilePlan, SHOP } from './plan.fixture.ts';

const LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;
const generate = (plan: typeof SHOP, language: Language, sdk: Sdk = 'segment') =>
  generateClient(plan, { language, sdk, packageName: 'trackingplan' });

const folder = mkdtempSync(join(tmpdir(), 'tributary-codegen-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const FILES: Readonly<Record<Language, string>> = { typescript: 'ts.txt', python: 'py.txt', go: 'go.txt' };

describe.each<Language>(['typescript', 'python', 'go'])('a client in %s', (language) => {
  it('is the same text for the same plan', async () => {
    const text = generate(SHOP, language);
    expect(generate(structuredClone(SHOP), language)).toBe(text);
    await expect(text).toMatchFileSnapshot(`snapshots/shop.${FILES[language]}`);
  });

  it('of an empty plan is complete', () => {
    expect(generate({ name: 'Empty', contracts: [] }, language)).toContain('TrackingPlan');
  });
});

it('the client for browsers differs only in the calls of the SDK', async () => {
  await expect(generate(SHOP, 'typescript', 'browser')).toMatchFileSnapshot('snapshots/shop.browser.ts.txt');
});

/** The errors of a program of these files, as the compiler gives them. */
function errorsOf(files: Readonly<Record<string, string>>): readonly string[] {
  const paths = Object.entries(files).map(([name, text]) => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  });
  const program = ts.createProgram(paths, {
    strict: true,
    noEmit: true,
    exactOptionalPropertyTypes: true,
    noUnusedLocals: true,
    noUnusedParameters: true,
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    allowImportingTsExtensions: true,
    lib: ['lib.es2022.d.ts'],
    types: [],
  });
  return ts
    .getPreEmitDiagnostics(program)
    .map(
      ({ messageText, file, start }) =>
        `${file?.fileName.slice(folder.length + 1)} ${start}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`,
    );
}

describe('in TypeScript', () => {
  it('a valid call compiles, and an invalid property does not', () => {
    const call = (properties: string) =>
      `import { TrackingPlan } from './shop.ts';\ndeclare const plan: TrackingPlan;\nplan.trackOrderPlaced({ userId: 'u' }, ${properties});\n`;
    const right = `{ 'order id': 'a', total: 1, currency: 'EUR', coupon: null, 'placed-at': new Date(), lines: [{ sku: 's' }], free: { x: [1] }, any: 'x' }`;
    const wrong = {
      'missing.ts': `{ 'order id': 'a' }`,
      'type.ts': `{ 'order id': 5, total: 1 }`,
      'enum.ts': `{ 'order id': 'a', total: 1, currency: 'GBP' }`,
      'unknown.ts': `{ 'order id': 'a', total: 1, totl: 2 }`,
      'nested.ts': `{ 'order id': 'a', total: 1, address: {} }`,
      'list.ts': `{ 'order id': 'a', total: 1, lines: [{ sku: 's', colour: 'red' }] }`,
      'null.ts': `{ 'order id': 'a', total: null }`,
    };
    const others = `import { TrackingPlan } from './shop.ts';
declare const plan: TrackingPlan;
plan.track({ anonymousId: 'd' }, 'Any Name', { a: 'b' });
plan.pageHome({ userId: 'u' });
plan.identify({ userId: 'u' }, { plan: 'pro' });
plan.group({ userId: 'u' }, 'acme', { employees: 5 });
`;
    const errors = errorsOf({
      'shop.ts': generate(SHOP, 'typescript'),
      'right.ts': call(right),
      'others.ts': others,
      ...Object.fromEntries(Object.entries(wrong).map(([name, properties]) => [name, call(properties)])),
      'nobody.ts': `import { TrackingPlan } from './shop.ts';\ndeclare const plan: TrackingPlan;\nplan.pageHome({});\n`,
    });
    const files = new Set(errors.map((error) => error.split(' ')[0]));
    expect([...files].sort(), errors.join('\n')).toEqual([...Object.keys(wrong), 'nobody.ts'].sort());
  });

  it('no name ends a string or comment, or breaks the compilation', () => {
    const files: Record<string, string> = {};
    const plans = fc.sample(hostilePlan, LONG ? 400 : 30);
    for (const [at, plan] of plans.entries())
      for (const sdk of ['segment', 'browser'] as const)
        files[`hostile${at}${sdk}.ts`] = generate(plan, 'typescript', sdk);
    for (const [name, text] of Object.entries(files)) {
      const { statements } = ts.createSourceFile(name, text, ts.ScriptTarget.ES2022);
      for (const statement of statements)
        expect(
          [
            ts.SyntaxKind.InterfaceDeclaration,
            ts.SyntaxKind.TypeAliasDeclaration,
            ts.SyntaxKind.ClassDeclaration,
          ],
          text,
        ).toContain(statement.kind);
    }
    expect(errorsOf(files)).toEqual([]);
  });
});

const has = (program: string, ...args: readonly string[]) => spawnSync(program, args).status === 0;

describe.skipIf(!has('python3', '--version'))('in Python', () => {
  it('no name ends a string or comment, and the module only runs its definitions', () => {
    const count = LONG ? 400 : 30;
    for (const [at, plan] of fc.sample(hostilePlan, count).entries())
      writeFileSync(join(folder, `hostile${at}.py`), generate(plan, 'python'));
    const check = `
import ast, importlib.util, pathlib, sys
assert sys.version_info >= (3, 8)
for at in range(${count}):
    path = pathlib.Path(${JSON.stringify(folder)}) / ("hostile%d.py" % at)
    tree = ast.parse(path.read_bytes())
    allowed = (ast.Expr, ast.ImportFrom, ast.Import, ast.Assign, ast.AnnAssign, ast.ClassDef, ast.FunctionDef)
    for node in tree.body:
        assert isinstance(node, allowed), (path, ast.dump(node))
        if isinstance(node, ast.Expr):
            assert isinstance(node.value, ast.Constant), (path, ast.dump(node))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module]
            assert set(names) <= {"__future__", "datetime", "decimal", "ipaddress", "math", "re", "uuid", "typing"}, names
    spec = importlib.util.spec_from_file_location("hostile%d" % at, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.TrackingPlan(None)
`;
    execFileSync('python3', ['-B', '-c', check], { stdio: 'pipe' });
  });

  it('an invalid value is refused before the SDK is called, with all faults', () => {
    writeFileSync(join(folder, 'shop.py'), generate(SHOP, 'python'));
    const check = `
import datetime, sys
sys.path.insert(0, ${JSON.stringify(folder)})
from shop import TrackingPlan, TrackingPlanError
class Client:
    calls = []
    def __getattr__(self, name):
        return lambda **fields: self.calls.append((name, fields))
plan = TrackingPlan(Client())
good = {"order id": "a", "total": 1, "currency": "EUR", "coupon": None, "placed-at": datetime.datetime.now(),
        "address": {"city": "X"}, "lines": [{"sku": "s", "count": 2}], "any": [1, {"a": None}]}
plan.track_order_placed(good, user_id="u")
plan.track("Other", {"a": "b"}, anonymous_id="d")
plan.page_home(user_id="u")
plan.identify({"plan": "pro"}, user_id="u")
plan.group("acme", {"employees": 5}, user_id="u")
assert [name for name, _ in Client.calls] == ["track", "track", "page", "identify", "group"], Client.calls
assert Client.calls[0][1] == {"event": "Order Placed", "properties": good, "user_id": "u"}, Client.calls[0]
def faults_of(**changes):
    try:
        plan.track_order_placed({**good, **changes}, user_id="u")
    except TrackingPlanError as error:
        return error.faults
    raise AssertionError(changes)
print(faults_of(total="1"))
print(faults_of(total=-1, currency="GBP", extra=1))
print(faults_of(address={}, lines=[{"sku": 5}, {"sku": "s", "count": 0}]))
print(faults_of(email="nobody", gift=1, total=float("nan")))
print(faults_of(**{"order id": "", "placed-at": "yesterday"}))
try:
    plan.track_order_placed({"total": 1}, user_id="u")
except TrackingPlanError as error:
    print(error)
try:
    plan.page_home(userid="u")
except TypeError as error:
    print(error)
assert len(Client.calls) == 5
`;
    expect(execFileSync('python3', ['-B', '-c', check], { encoding: 'utf8' }).trim().split('\n')).toEqual([
      "['/total must be number, not string']",
      `["/currency must be one of ['EUR', 'USD']", '/total must have minimum 0', '/extra is not declared']`,
      "['/address/city is required', '/lines/0/sku must be string, not integer', '/lines/1/count must have minimum 1']",
      "['/email must be a valid email', '/gift must be boolean, not integer', '/total must be number, not not a finite number']",
      "['/order id must have minLength 1', '/placed-at must be a valid date-time']",
      'track "Order Placed": /order id is required',
      'unexpected arguments: userid',
    ]);
  });
});

describe.skipIf(!has('gofmt', '-h') && !has('go', 'version'))('in Go', () => {
  it('no name ends a string or comment: each file has the declarations of the plan and no others', () => {
    for (const [at, plan] of fc.sample(hostilePlan, LONG ? 400 : 30).entries())
      for (const sdk of ['segment', 'rudderstack'] as const) {
        const text = generate(plan, 'go', sdk);
        writeFileSync(join(folder, `hostile${at}${sdk}.go`), text);
        expect(text).not.toMatch(/^func (init|main)\b/m);
        expect(text.match(/^import /gm)).toHaveLength(1);
      }
    expect(spawnSync('gofmt', ['-e', '-l', folder], { encoding: 'utf8' }).stderr).toBe('');
  });

  // The compiler takes half a second for each file.
  it.runIf(LONG)('every file compiles with the types of an SDK', () => {
    const module = join(folder, 'module');
    const paths = {
      segment: 'github.com/segmentio/analytics-go/v3',
      rudderstack: 'github.com/rudderlabs/analytics-go/v4',
    };
    mkdirSync(module);
    const lines = Object.entries(paths).map(([sdk, path]) => {
      mkdirSync(join(module, sdk));
      writeFileSync(join(module, sdk, 'go.mod'), `module ${path}\n\ngo 1.21\n`);
      writeFileSync(
        join(module, sdk, 'sdk.go'),
        goSdk(sdk === 'segment' ? 'Timestamp' : 'OriginalTimestamp'),
      );
      const version = path.endsWith('v3') ? 'v3.0.0' : 'v4.0.0';
      return `require ${path} ${version}\n\nreplace ${path} => ./${sdk}\n`;
    });
    writeFileSync(join(module, 'go.mod'), `module hostile\n\ngo 1.21\n\n${lines.join('\n')}`);
    for (const [at, plan] of fc.sample(hostilePlan, 60).entries()) {
      mkdirSync(join(module, `p${at}`));
      writeFileSync(
        join(module, `p${at}`, 'plan.go'),
        generate(plan, 'go', at % 2 === 0 ? 'segment' : 'rudderstack'),
      );
    }
    const { stdout, stderr } = spawnSync('go', ['vet', './...'], { cwd: module, encoding: 'utf8' });
    expect(stdout + stderr).toBe('');
  });
});

/** The part of an SDK that generated code names. */
function goSdk(time: string): string {
  const fields = `MessageId, UserId, AnonymousId string
	Context *Context
	Integrations Integrations
	${time} time.Time`;
  return `package analytics

import "time"

type Context struct{}
type Integrations map[string]interface{}
type Properties map[string]interface{}
type Traits map[string]interface{}
type Message interface{}
type Client interface{ Enqueue(Message) error }
type Track struct {
	${fields}
	Event string
	Properties Properties
}
type Page struct {
	${fields}
	Name string
	Properties Properties
}
type Identify struct {
	${fields}
	Traits Traits
}
type Group struct {
	${fields}
	GroupId string
	Traits Traits
}
`;
}
