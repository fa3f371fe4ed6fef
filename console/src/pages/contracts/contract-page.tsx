import { Page } from '../../shared/page.tsx';

export function ContractPage() {
  return <Page title="Contract">{null}</Page>;
}
