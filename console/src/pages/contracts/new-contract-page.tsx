import { Page } from '../../shared/page.tsx';

export function NewContractPage() {
  return <Page title="New contract">{null}</Page>;
}
