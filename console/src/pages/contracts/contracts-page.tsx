import { Page } from '../../shared/page.tsx';

export function ContractsPage() {
  return <Page title="Contracts">{null}</Page>;
}
