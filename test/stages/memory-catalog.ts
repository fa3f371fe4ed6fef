import {
  applyFact,
  type Catalog,
  CatalogState,
  type Contract,
  type Destination,
  type Draft,
  type Fact,
  type FactData,
  type FactType,
  type Rule,
  type Transformation,
  Unavailable,
  type Verdict,
} from '@tributary/core';

export const WORKSPACE = '00000000-0000-4000-8000-000000000001';
export const ORGANIZATION = '00000000-0000-4000-8000-000000000002';
const AT = '2026-01-01T00:00:00.000Z';

/** A contract for orders that blocks, but for these fields. */
export function contractOf(fields: Partial<Draft<Contract>> = {}): Draft<Contract> {
  return {
    id: '00000000-0000-4000-8000-0000000000c1',
    workspace_id: WORKSPACE,
    name: 'orders',
    event_type: 'track',
    event_name: 'Order Placed',
    description: null,
    schema_definition: {},
    enforcement_mode: 'block',
    undeclared_fields: 'allow',
    status: 'active',
    created_by: 'a',
    ...fields,
  };
}

export const INSTALLATION = '00000000-0000-4000-8000-000000000003';

/** The real fold, with facts from the test in place of the log. Starts as a new installation with one workspace. */
export class MemoryCatalog implements Catalog {
  readonly state = new CatalogState();
  readonly ready = true;
  readonly age = 0;
  readonly fault = undefined;
  readonly proposed: Fact[] = [];
  /** All facts so far, by position. */
  readonly facts: Fact[] = [];
  position = 0;

  /** The time of further facts. */
  at = AT;

  /** With version 1, an installation of 0.2.0 that is not upgraded yet. */
  constructor(installationVersion: 1 | 2 = 2) {
    this.add('installation.created', INSTALLATION, {}, installationVersion);
    this.add('workspace.created', WORKSPACE, {
      workspace: { id: WORKSPACE, name: 'w', organization_id: ORGANIZATION, region: 'eu', status: 'active' },
      organization: { id: ORGANIZATION, name: 'o', regions: ['eu'], notification_email: null },
    });
  }

  /** Applies a fact; the test fails if the fold refuses it. */
  add<T extends FactType>(type: T, entity: string, data: FactData[T], v = 1): void {
    const from = { address: '', request_id: '' };
    const verdict = this.#apply({ v, type, entity, data, by: 'test', from, at: this.at } as Fact);
    if (!verdict.applied) throw new Error(`${type} was refused: ${verdict.conflict}`);
  }

  addDestination(id: string, fields: Partial<Draft<Destination>> = {}): void {
    const destination = {
      id,
      workspace_id: WORKSPACE,
      name: id,
      type: 'scripted',
      settings: {},
      enabled: true,
    };
    this.add('destination.created', id, { ...destination, created_by: 'a', ...fields });
  }

  addTransformation(id: string, fields: Partial<Draft<Transformation>> = {}): void {
    this.add('transformation.created', id, {
      id,
      workspace_id: WORKSPACE,
      name: id,
      description: null,
      source_code: 'function transform(event) { return event; }',
      test_input: null,
      test_output: null,
      status: 'active',
      test_error: null,
      last_error: null,
      created_by: 'a',
      ...fields,
    });
  }

  addContract(fields: Partial<Draft<Contract>> = {}): void {
    const contract = contractOf(fields);
    this.add('contract.created', contract.id, contract);
  }

  addRule(id: string, destinationId: string, fields: Partial<Draft<Rule>> = {}): void {
    this.add('rule.created', id, {
      id,
      workspace_id: WORKSPACE,
      name: id,
      destination_id: destinationId,
      event_types: [],
      event_names: [],
      environments: ['production'],
      transformation_id: null,
      enabled: true,
      created_by: 'a',
      ...fields,
    });
  }

  async propose(fact: Fact): Promise<Verdict> {
    this.proposed.push(fact);
    return this.#apply(fact);
  }

  async waitFor(position: number): Promise<void> {
    if (this.position < position) throw new Unavailable('the catalog is behind');
  }

  async catchUp(): Promise<void> {}
  async close(): Promise<void> {}

  #apply(fact: Fact): Verdict {
    const verdict = applyFact(this.state, fact, this.position);
    this.facts.push(fact);
    this.position += 1;
    return verdict;
  }
}
